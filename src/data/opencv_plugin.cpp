#include "data/opencv_plugin.h"

#include <cstdio>
#include <exception>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>

namespace {

// OpenCV is one caller among many threads here, and its messages go into our errors.
bool quiet() {
  cv::setNumThreads(0);
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  return true;
}

const char* decode(const std::uint8_t* data, std::size_t size, int width, int height,
                   std::uint8_t* rgb) {
  static const bool ready = quiet();
  static_cast<void>(ready);
  const cv::Mat file(1, static_cast<int>(size), CV_8UC1, const_cast<std::uint8_t*>(data));
  const cv::Mat image = cv::imdecode(file, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  if (image.empty()) {
    return "OpenCV cannot decode it";
  }
  if (image.type() != CV_8UC3 || image.cols != width || image.rows != height) {
    return "OpenCV reads another size than the header says";
  }
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* bgr = image.ptr(y);
    for (int x = 0; x < width; ++x, bgr += 3, rgb += 3) {
      rgb[0] = bgr[2];
      rgb[1] = bgr[1];
      rgb[2] = bgr[0];
    }
  }
  return nullptr;
}

}  // namespace

int temper_opencv_decode(const std::uint8_t* data, std::size_t size, int width, int height,
                         std::uint8_t* rgb, char* reason, std::size_t reason_size) {
  try {
    const char* problem = decode(data, size, width, height, rgb);
    if (problem == nullptr) {
      return 0;
    }
    std::snprintf(reason, reason_size, "%s", problem);
  } catch (const std::exception& error) {
    std::snprintf(reason, reason_size, "%s", error.what());
  } catch (...) {
    std::snprintf(reason, reason_size, "unknown error in OpenCV");
  }
  return 1;
}
