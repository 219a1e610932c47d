#pragma once
// What iterative attacks have in common.

#include <ATen/core/Tensor.h>

#include "temper/attacks/attack.h"

namespace temper {

// A per-sample vector [N] in the shape that broadcasts over images.
[[nodiscard]] at::Tensor over_images(const at::Tensor& per_sample);

// Per-sample masks of gradients that lead nowhere.
class GradientWatch {
 public:
  // Counts only where the context asks for it.
  GradientWatch(const AttackContext& context, const at::Tensor& images);

  void add(const at::Tensor& gradient);
  // Writes the counts to where the context asks for them.
  void report() const;

 private:
  GradientCounts* counts_;
  at::Tensor zero_;
  at::Tensor nonfinite_;
};

// Per sample the images with the largest loss so far. A loss that is not a number never wins.
class BestSoFar {
 public:
  // `losses`: [N]. Returns where these images are the best ones now, bool [N].
  at::Tensor offer(const at::Tensor& images, const at::Tensor& losses);
  [[nodiscard]] const at::Tensor& images() const { return images_; }
  [[nodiscard]] const at::Tensor& losses() const { return losses_; }

 private:
  at::Tensor images_;
  at::Tensor losses_;
};

}  // namespace temper
