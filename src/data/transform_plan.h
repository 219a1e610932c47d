#pragma once
// The first steps of a transform as one operation on the stored picture: so only the wanted part
// is decoded, and the result is written once. Random numbers are drawn in the order of the steps.

#include <cstddef>
#include <span>

#include "data/picture.h"
#include "data/resize.h"
#include "temper/core/random.h"
#include "temper/data/transform.h"

namespace temper {

// A part of the picture, resized, lies on a canvas of zeros.
struct TransformPlan {
  Resampling resampling;  // its window may be empty: nothing but zeros
  int left = 0;           // of the window on the canvas
  int top = 0;
  int width = 0;  // of the canvas
  int height = 0;
  bool mirrored = false;  // the canvas as a whole
  std::size_t steps = 0;  // that are done by this

  [[nodiscard]] bool is_empty() const {
    return resampling.window.width <= 0 || resampling.window.height <= 0;
  }
};

// Takes as many steps as fit, for a picture of that size; at least one if the first one changes
// the geometry. Throws DataError when the picture does not fit a step.
[[nodiscard]] TransformPlan plan_transform(std::span<const TransformStep> steps, int width,
                                           int height, SampleRandom& random);

// The part of the picture that must be there; empty when none is.
[[nodiscard]] Rectangle needed_region(const TransformPlan& plan);

// Writes height x width pixels. `source` holds needed_region(plan); T as for resample().
template <typename T>
void execute(const TransformPlan& plan, const PictureRegion& source, ResizeScratch& scratch,
             T* out);

// All steps on an image in memory.
[[nodiscard]] Image apply_steps(std::span<const TransformStep> steps, Image image,
                                SampleRandom& random);

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
