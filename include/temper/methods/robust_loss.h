#pragma once
// Outer losses over clean and adversarial logits.

#include <ATen/core/Tensor.h>

#include "temper/attacks/attack.h"

namespace temper {

// Sums over samples, differentiable scalars; a term that a loss does not have is undefined.
struct LossTerms {
  at::Tensor total{};
  at::Tensor clean{};
  at::Tensor robust{};  // without its weight
};

class RobustLoss {
 public:
  virtual ~RobustLoss() = default;
  // Logits are [N, C], labels int64 [N]. `robust_target_logits` are the clean logits that the
  // robust term compares with; the same tensor as `clean_logits` unless a reference's order of
  // forwards computes them anew.
  [[nodiscard]] virtual LossTerms compute(const at::Tensor& clean_logits,
                                          const at::Tensor& robust_target_logits,
                                          const at::Tensor& adversarial_logits,
                                          const at::Tensor& labels) const = 0;
  // What the attack should ascend on.
  [[nodiscard]] virtual InnerLoss inner_loss() const = 0;
  // Without a clean forward the clean logits are undefined.
  [[nodiscard]] virtual bool has_clean_forward() const { return true; }
  // Whether the official code runs the clean forward once more for the robust term.
  [[nodiscard]] virtual bool repeats_clean_forward() const { return false; }
};

// CE(f(x), y) + beta KL(p(x) || p(x')), gradients through both arguments: Zhang et al.,
// "Theoretically principled trade-off between robustness and accuracy" (2019), eq. 5 and the
// official code.
class TradesLoss final : public RobustLoss {
 public:
  TradesLoss(double beta, double label_smoothing)
      : beta_(beta), label_smoothing_(label_smoothing) {}
  [[nodiscard]] LossTerms compute(const at::Tensor& clean_logits,
                                  const at::Tensor& robust_target_logits,
                                  const at::Tensor& adversarial_logits,
                                  const at::Tensor& labels) const override;
  [[nodiscard]] InnerLoss inner_loss() const override { return InnerLoss::kKlDivergence; }
  [[nodiscard]] bool repeats_clean_forward() const override { return true; }

 private:
  double beta_;
  double label_smoothing_;
};

// With q = p(x'): CE(f(x'), y) - log(1 - max of q_k over k != y) + beta KL(p(x) || q) (1 - p_y(x)),
// with the small constants of the official code: Wang et al., "Improving adversarial robustness
// requires revisiting misclassified examples" (2020), eq. 11. For probabilities as labels (mixed
// images) y is their largest entry in the maximum, and p_y(x) the probability of the label's
// distribution. Label smoothing acts on the cross entropy. The clean loss is CE(f(x), y), which is
// not part of the total.
class MartLoss final : public RobustLoss {
 public:
  MartLoss(double beta, double label_smoothing) : beta_(beta), label_smoothing_(label_smoothing) {}
  [[nodiscard]] LossTerms compute(const at::Tensor& clean_logits,
                                  const at::Tensor& robust_target_logits,
                                  const at::Tensor& adversarial_logits,
                                  const at::Tensor& labels) const override;
  [[nodiscard]] InnerLoss inner_loss() const override { return InnerLoss::kCrossEntropy; }

  // KL(p(x) || q) of each sample, [N].
  [[nodiscard]] static at::Tensor divergence(const at::Tensor& clean_logits,
                                             const at::Tensor& adversarial_logits);

 private:
  double beta_;
  double label_smoothing_;
};

// CE(f(x), y) + beta CE(f(x'), y): Goodfellow et al. (2015), section 6, with a free weight. Label
// smoothing acts on the clean term.
class MixedLoss final : public RobustLoss {
 public:
  MixedLoss(double beta, double label_smoothing) : beta_(beta), label_smoothing_(label_smoothing) {}
  [[nodiscard]] LossTerms compute(const at::Tensor& clean_logits,
                                  const at::Tensor& robust_target_logits,
                                  const at::Tensor& adversarial_logits,
                                  const at::Tensor& labels) const override;
  [[nodiscard]] InnerLoss inner_loss() const override { return InnerLoss::kCrossEntropy; }

 private:
  double beta_;
  double label_smoothing_;
};

// CE(f(x'), y): Madry et al. (2018), eq. 2.1.
class AdversarialLoss final : public RobustLoss {
 public:
  explicit AdversarialLoss(double label_smoothing) : label_smoothing_(label_smoothing) {}
  [[nodiscard]] LossTerms compute(const at::Tensor& clean_logits,
                                  const at::Tensor& robust_target_logits,
                                  const at::Tensor& adversarial_logits,
                                  const at::Tensor& labels) const override;
  [[nodiscard]] InnerLoss inner_loss() const override { return InnerLoss::kCrossEntropy; }
  [[nodiscard]] bool has_clean_forward() const override { return false; }

 private:
  double label_smoothing_;
};

// Cross entropy summed over samples, against (1 - s) one-hot + s / classes. Samples with the label
// -1 have none and are left out.
[[nodiscard]] at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                           double label_smoothing = 0);

}  // namespace temper
