#pragma once
// Parts of pictures.

#include "temper/data/image.h"

namespace temper {

// In pixels, from the upper left corner.
struct Rectangle {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  friend bool operator==(const Rectangle&, const Rectangle&) = default;
};

[[nodiscard]] constexpr bool is_inside(const Rectangle& part, int width, int height) {
  return part.x >= 0 && part.y >= 0 && part.width > 0 && part.height > 0 &&
         part.x <= width - part.width && part.y <= height - part.height;
}

// The pixels of a part of a picture; x and y: its upper left corner there.
struct PictureRegion {
  ImageView pixels;
  int x = 0;
  int y = 0;
};

}  // namespace temper
