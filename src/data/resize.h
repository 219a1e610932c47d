#pragma once
// Pillow 13's bilinear resize: separable, always antialiased. Only the wanted part of the result is
// computed, which gives the same pixels as cutting it out afterwards.

#include "temper/data/image.h"

namespace temper {

struct Rectangle {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

// Cuts `crop` out of `source`, resizes it to width x height and returns the part `window` of that.
// The crop's edge counts as the picture's edge. Both rectangles must lie inside.
[[nodiscard]] Image resize_crop(const Image& source, const Rectangle& crop, int width, int height,
                                const Rectangle& window);

}  // namespace temper
