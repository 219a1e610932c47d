#pragma once
// Where torchvision's random transforms cut; apart from the pixel work, for tests.

#include "data/resize.h"
#include "temper/data/transform.h"

namespace temper {

// RandomResizedCrop.get_params.
[[nodiscard]] Rectangle choose_crop(const RandomResizedCrop& step, int width, int height,
                                    SampleRandom& random);

// Half of an integer, halves to even, as Python's round.
[[nodiscard]] constexpr int round_half(int value) {
  const int down = value / 2;
  return value % 2 != 0 && down % 2 != 0 ? down + 1 : down;
}

// Where CenterCrop begins along one axis; negative when it pads.
[[nodiscard]] constexpr int center_offset(int length, int size) {
  return length < size ? -((size - length) / 2) : round_half(length - size);
}

}  // namespace temper
