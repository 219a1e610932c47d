#pragma once
// Pillow's conversions between pixel modes, on interleaved rows of bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "temper/data/image.h"

namespace temper {

// ITU-R 601 luma in 16-bit fixed point, rounded.
[[nodiscard]] constexpr std::uint8_t luma(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

// Both work in place on the first `count` pixels.
// Inverted CMYK samples, as every four-component JPEG is taken, become RGB.
void inverted_cmyk_to_rgb(std::uint8_t* pixels, std::size_t count);
// From and to 1 or 3 channels: gray is repeated, RGB becomes luma. There must be room for the
// result.
void convert_channels(std::uint8_t* pixels, std::size_t count, int from, int to);

[[nodiscard]] Image copy_of(const ImageView& view);

// Gray is repeated, RGB becomes luma; floats use the same weights without rounding to bytes.
// Channel counts other than 1 and 3 are bugs of the caller.
[[nodiscard]] Image with_channels(Image image, int channels);

}  // namespace temper
