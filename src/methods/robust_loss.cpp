#include "temper/methods/robust_loss.h"

#include <ATen/ATen.h>

namespace temper {

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing) {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, /*ignore_index=*/-100,
                                label_smoothing);
}

LossTerms TradesLoss::compute(const at::Tensor& clean_logits,
                              const at::Tensor& robust_target_logits,
                              const at::Tensor& adversarial_logits,
                              const at::Tensor& labels) const {
  const at::Tensor clean = cross_entropy_sum(clean_logits, labels, label_smoothing_);
  // Log probabilities on both sides: a zero probability gives no NaN.
  const at::Tensor robust =
      at::kl_div(at::log_softmax(adversarial_logits, 1), at::log_softmax(robust_target_logits, 1),
                 at::Reduction::Sum, /*log_target=*/true);
  return {.total = clean + beta_ * robust, .clean = clean, .robust = robust};
}

LossTerms MixedLoss::compute(const at::Tensor& clean_logits,
                             const at::Tensor& /*robust_target_logits*/,
                             const at::Tensor& adversarial_logits, const at::Tensor& labels) const {
  const at::Tensor clean = cross_entropy_sum(clean_logits, labels, label_smoothing_);
  const at::Tensor robust = cross_entropy_sum(adversarial_logits, labels);
  return {.total = clean + beta_ * robust, .clean = clean, .robust = robust};
}

LossTerms AdversarialLoss::compute(const at::Tensor& /*clean_logits*/,
                                   const at::Tensor& /*robust_target_logits*/,
                                   const at::Tensor& adversarial_logits,
                                   const at::Tensor& labels) const {
  const at::Tensor robust = cross_entropy_sum(adversarial_logits, labels, label_smoothing_);
  return {.total = robust, .robust = robust};
}

}  // namespace temper
