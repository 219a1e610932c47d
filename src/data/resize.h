#pragma once
// Pillow 13's bilinear resize: separable, always antialiased. Only the wanted part of the result is
// computed, which gives the same pixels as cutting it out afterwards.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/picture.h"
#include "data/resize_kernels.h"
#include "temper/data/buffer.h"

namespace temper {

// Cuts `crop` out of a picture, resizes it to width x height and takes the part `window` of that.
// The crop's edge counts as the picture's edge.
struct Resampling {
  Rectangle crop;
  int width = 0;
  int height = 0;
  Rectangle window;
};

// The part of the picture that is looked at.
[[nodiscard]] Rectangle needed_region(const Resampling& resampling);

// Memory of one thread, reused from call to call.
struct ResizeScratch {
  ByteAxis byte_columns, byte_rows;
  FloatAxis float_columns, float_rows;
  Buffer between;
};

// Bytes that `between` will take.
[[nodiscard]] std::uint64_t memory_between(const Resampling& resampling, int channels,
                                           ElementType type);

// Writes window.height rows of window.width pixels, `out_stride` elements apart. `source` must hold
// needed_region(); 1 or 3 channels of bytes (T: std::uint8_t) or floats in [0, 1] (T: float).
// `mirrored`: from right to left.
template <typename T>
void resample(const PictureRegion& source, const Resampling& resampling, bool mirrored,
              ResizeScratch& scratch, T* out, std::size_t out_stride);

}  // namespace temper
