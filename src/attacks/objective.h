#pragma once
// What an attack ascends on.

#include <ATen/core/Tensor.h>

#include "temper/attacks/attack.h"
#include "temper/attacks/pgd.h"

namespace temper {

// A loss per sample, larger is more adversarial.
class Objective {
 public:
  // Runs one forward of the clean images where the loss or the target needs their logits.
  Objective(Classifier& model, const at::Tensor& clean, const at::Tensor& labels,
            const AttackContext& context, AttackTarget target);

  // `logits`: [N, C]; returns [N], differentiable.
  [[nodiscard]] at::Tensor per_sample(const at::Tensor& logits);

 private:
  [[nodiscard]] at::Tensor draw_targets(std::int64_t classes) const;

  const AttackContext& context_;
  AttackTarget target_;
  at::Tensor labels_;
  at::Tensor targets_;                    // int64 [N], once known
  at::Tensor clean_log_probabilities_{};  // of the KL divergence
};

}  // namespace temper
