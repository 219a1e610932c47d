#include "data/codec.h"

#include <array>
#include <string_view>

#include "data/convert.h"
#include "temper/core/error.h"

namespace temper {
namespace {

struct Signature {
  std::string_view bytes;
  std::string_view name;
};

constexpr std::array kUnsupported = {
    Signature{"GIF8", "GIF"},   Signature{"BM", "BMP"},
    Signature{"RIFF", "WebP"},  Signature{"II*", "TIFF"},
    Signature{"MM\0*", "TIFF"}, Signature{"P1", "PBM"},
    Signature{"P2", "PGM"},     Signature{"P3", "PPM"},
    Signature{"P4", "PBM"},     Signature{"P5", "PGM"},
    Signature{"P6", "PPM"},     Signature{"\xff\x4f\xff\x51", "JPEG 2000"},
};

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
  for (const Signature& signature : kUnsupported) {
    if (text.starts_with(signature.bytes)) {
      throw DataError(
          concat("unsupported format ", signature.name, "; convert the file to PNG or JPEG"));
    }
  }
  throw DataError("not an image: neither PNG nor JPEG");
}

std::unique_ptr<ImageDecoder> open_image(std::span<const std::uint8_t> data) {
  return file_type(data) == FileType::kPng ? open_png(data) : open_jpeg(data);
}

Image decode_image(std::span<const std::uint8_t> data, int channels) {
  const auto decoder = open_image(data);
  Buffer buffer;
  return copy_of(
      decoder->decode({0, 0, decoder->width(), decoder->height()}, channels, buffer).pixels);
}

std::string describe_encoding(std::span<const std::uint8_t> data) {
  if (file_type(data) == FileType::kPng) {
    return "png";
  }
  return is_progressive_jpeg(data) ? "jpeg progressive" : "jpeg";
}

}  // namespace temper
