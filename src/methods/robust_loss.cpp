#include "temper/methods/robust_loss.h"

#include <ATen/ATen.h>

namespace temper {
namespace {

constexpr std::int64_t kNoLabel = -1;

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                             double label_smoothing) {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, kNoLabel, label_smoothing);
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

namespace {

// The constants of MART's official code.
constexpr double kMarginOffset = 1.0001;
constexpr double kWeightOffset = 1.0000001;
constexpr double kLogOffset = 1e-12;

}  // namespace

// In the log of the clean probabilities: p log p is zero at p = 0, with its gradient.
at::Tensor MartLoss::divergence(const at::Tensor& clean_logits,
                                const at::Tensor& adversarial_logits) {
  const at::Tensor log_clean = at::log_softmax(clean_logits, 1);
  const at::Tensor log_adversarial = (at::softmax(adversarial_logits, 1) + kLogOffset).log();
  return (log_clean.exp() * (log_clean - log_adversarial)).sum(1);
}

LossTerms MartLoss::compute(const at::Tensor& clean_logits,
                            const at::Tensor& /*robust_target_logits*/,
                            const at::Tensor& adversarial_logits, const at::Tensor& labels) const {
  const bool mixed = labels.dim() == 2;
  const at::Tensor probabilities = at::softmax(adversarial_logits, 1);
  const at::Tensor label = (mixed ? labels.argmax(1) : labels).unsqueeze(1);
  const at::Tensor strongest_other = std::get<0>(probabilities.scatter(1, label, -1).max(1));
  const at::Tensor margin = -(kMarginOffset - strongest_other + kLogOffset).log();
  const at::Tensor clean_probabilities = at::softmax(clean_logits, 1);
  const at::Tensor of_label = mixed ? (clean_probabilities * labels).sum(1)
                                    : clean_probabilities.gather(1, label).squeeze(1);
  const at::Tensor robust =
      (divergence(clean_logits, adversarial_logits) * (kWeightOffset - of_label)).sum();
  const at::Tensor total = cross_entropy_sum(adversarial_logits, labels, label_smoothing_) +
                           margin.sum() + beta_ * robust;
  return {
      .total = total, .clean = cross_entropy_sum(clean_logits.detach(), labels), .robust = robust};
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
