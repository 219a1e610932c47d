#include "data/codec.h"

#include <string_view>

#include "data/convert.h"
#include "data/exif.h"
#include "data/other_formats.h"
#include "temper/core/error.h"
#include "temper/data/dataset.h"

namespace temper {
namespace {

enum class FileType { kPng, kJpeg, kOther };

// By content.
FileType file_type(std::span<const std::uint8_t> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  if (text.empty()) {
    throw DataError("empty file");
  }
  if (text.starts_with("\x89PNG\r\n\x1a\n")) {
    return FileType::kPng;
  }
  if (text.starts_with("\xff\xd8")) {
    return FileType::kJpeg;
  }
  if (!other_format(data)) {
    throw DataError("not an image: neither PNG nor JPEG, nor another known format");
  }
  return FileType::kOther;
}

}  // namespace

void check_image_size(std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0) {
    throw DataError(concat("corrupt: size ", width, " x ", height));
  }
  if (width > kMaxImagePixels / height) {
    throw DataError(concat("too large: ", width, " x ", height, " pixels, at most ",
                           kMaxImagePixels, " are accepted"));
  }
}

std::unique_ptr<ImageDecoder> open_image(std::span<const std::uint8_t> data) {
  switch (file_type(data)) {
    case FileType::kPng:
      return open_png(data);
    case FileType::kJpeg:
      return open_jpeg(data);
    default:
      return open_other(data);
  }
}

std::unique_ptr<ImageDecoder> open_image(const EncodedImage& image) {
  auto decoder = open_image(image.bytes);
  return image.upright ? turned(std::move(decoder), exif_orientation(image.bytes))
                       : std::move(decoder);
}

Image decode_image(std::span<const std::uint8_t> data, int channels) {
  return decode_image(EncodedImage{data}, channels);
}

Image decode_image(const EncodedImage& image, int channels) {
  const auto decoder = open_image(image);
  Buffer buffer;
  return copy_of(
      decoder->decode({0, 0, decoder->width(), decoder->height()}, channels, buffer).pixels);
}

std::string describe_encoding(std::span<const std::uint8_t> data) {
  switch (file_type(data)) {
    case FileType::kPng:
      return "png";
    case FileType::kJpeg:
      return is_progressive_jpeg(data) ? "jpeg progressive" : "jpeg";
    default:
      return std::string(read_other_header(data).format);
  }
}

}  // namespace temper
