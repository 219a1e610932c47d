#pragma once
// Decoding of image files in memory, with the pixels of Pillow's convert("RGB") and convert("L").
// Errors are DataErrors that hold the reason alone; callers add the file's name.

#include <cstdint>
#include <span>
#include <string>

#include "temper/data/image.h"

namespace temper {

// More pixels than this are refused before anything is allocated, as by Pillow.
inline constexpr std::uint64_t kMaxImagePixels = 178'956'970;

// Throws DataError for more than kMaxImagePixels.
void check_image_size(std::uint64_t width, std::uint64_t height);

enum class FileType { kPng, kJpeg };

// By content. Throws DataError for an empty file, another format, and for what is no image.
[[nodiscard]] FileType file_type(std::span<const std::uint8_t> data);

// `channels`: 1 or 3.
[[nodiscard]] Image decode_image(std::span<const std::uint8_t> data, int channels);

[[nodiscard]] Image decode_png(std::span<const std::uint8_t> data, int channels);
[[nodiscard]] Image decode_jpeg(std::span<const std::uint8_t> data, int channels);

// "png", "jpeg", "jpeg progressive", by the header.
[[nodiscard]] std::string describe_encoding(std::span<const std::uint8_t> data);
[[nodiscard]] bool is_progressive_jpeg(std::span<const std::uint8_t> data);

}  // namespace temper
