#pragma once
// Images that are neither JPEG nor PNG. Their headers are read here; pixels come from OpenCV's
// plug-in where it gives those of Pillow, and what it would read otherwise is refused.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "data/codec.h"

namespace temper {

struct OtherHeader {
  std::string_view format;  // "bmp", "webp", "tiff", "pnm"
  std::uint64_t width = 0;
  std::uint64_t height = 0;
};

// The name of the format, for messages; nothing for what is no image.
[[nodiscard]] std::optional<std::string_view> other_format(std::span<const std::uint8_t> data);

// Throws DataError for a variant that is not supported and for a file that ends too early.
[[nodiscard]] OtherHeader read_other_header(std::span<const std::uint8_t> data);

// Throws DataError as read_other_header does, and when the plug-in is not there.
[[nodiscard]] std::unique_ptr<ImageDecoder> open_other(std::span<const std::uint8_t> data);

}  // namespace temper
