#include "report/png.h"

#include <png.h>

#include "temper/core/error.h"

namespace temper {

std::string encode_png(const Pixels& pixels) {
  require(pixels.channels == 1 || pixels.channels == 3, "an image has 1 or 3 channels");
  require(pixels.width > 0 && pixels.height > 0 &&
              pixels.bytes.size() == static_cast<std::size_t>(pixels.width) *
                                         static_cast<std::size_t>(pixels.height) *
                                         static_cast<std::size_t>(pixels.channels),
          "an image's bytes do not fit its size");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = pixels.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (png_image_write_to_memory(&image, out.data(), &size, 0, pixels.bytes.data(), 0, nullptr) ==
      0) {
    throw std::runtime_error(concat("cannot encode a PNG image: ", image.message));
  }
  out.resize(size);
  return out;
}

std::string base64(const std::string& bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kDigits[(group >> (18 - 6 * j)) & 63] : '=';
    }
  }
  return out;
}

}  // namespace temper
