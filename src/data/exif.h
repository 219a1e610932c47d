#pragma once
// The orientation that a camera wrote into a file, and pictures turned by it, as Pillow's
// ImageOps.exif_transpose.

#include <cstdint>
#include <memory>
#include <span>

#include "data/codec.h"

namespace temper {

// 1 to 8; 1, upright, when a JPEG or PNG file says nothing, or nothing that can be read. XMP counts
// where EXIF data is silent.
[[nodiscard]] int exif_orientation(std::span<const std::uint8_t> file);

// Gives the pictures of `decoder` turned; they are decoded as a whole.
[[nodiscard]] std::unique_ptr<ImageDecoder> turned(std::unique_ptr<ImageDecoder> decoder,
                                                   int orientation);

}  // namespace temper
