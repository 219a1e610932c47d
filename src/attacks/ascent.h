#pragma once
// What iterative attacks have in common.

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "temper/attacks/attack.h"
#include "temper/core/error.h"
#include "temper/models/classifier.h"

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

// One call of an attack whose work is `Run`, with the model's state kept.
template <typename Run, typename AttackType>
at::Tensor run_attack(const AttackType& attack, Classifier& model, const at::Tensor& images,
                      const at::Tensor& labels, const AttackContext& context) {
  require(!images.is_inference(),
          "an attack needs images that autograd may record, not inference tensors");
  const AttackStateGuard state(model, context.statistics);
  const at::AutoGradMode recording(true);
  const at::Tensor clean = images.detach();
  return Run(attack, model, clean, labels, context).perturb();
}

}  // namespace temper
