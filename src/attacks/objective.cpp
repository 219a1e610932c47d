#include "attacks/objective.h"

#include <ATen/ATen.h>

#include <limits>

#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper {
namespace {

constexpr std::uint8_t kTargetLayer = 2;  // 0 and 1 belong to the start

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
}

}  // namespace

Objective::Objective(Classifier& model, const at::Tensor& clean, const at::Tensor& labels,
                     const AttackContext& context, AttackTarget target)
    : context_(context), target_(target), labels_(labels) {
  const bool divergence = context.loss == InnerLoss::kKlDivergence;
  require(!divergence || target == AttackTarget::kNone,
          "an attack on the divergence from clean probabilities has no target");
  if (!divergence && target != AttackTarget::kLeastLikely) {
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor logits = model.forward(clean);
  if (divergence) {
    clean_log_probabilities_ = at::log_softmax(logits, 1);
  } else {
    const double never = std::numeric_limits<double>::infinity();
    targets_ = logits.scatter(1, labels.unsqueeze(1), never).argmin(1);
  }
}

at::Tensor Objective::draw_targets(std::int64_t classes) const {
  const at::Tensor uniform =
      uniform_tensor({.seed = context_.seed,
                      .purpose = context_.purpose,
                      .layer = kTargetLayer,
                      .index = context_.index},
                     context_.samples, {}, labels_.options().dtype(at::kDouble));
  const at::Tensor offset = (uniform * static_cast<double>(classes - 1)).floor().to(at::kLong) + 1;
  return (labels_ + offset).remainder(classes);
}

at::Tensor Objective::per_sample(const at::Tensor& logits) {
  if (clean_log_probabilities_.defined()) {
    return at::kl_div(at::log_softmax(logits, 1), clean_log_probabilities_, at::Reduction::None,
                      /*log_target=*/true)
        .sum(1);
  }
  if (target_ == AttackTarget::kNone) {
    return cross_entropy(logits, labels_);
  }
  if (!targets_.defined()) {
    targets_ = draw_targets(logits.size(1));
  }
  return -cross_entropy(logits, targets_);
}

}  // namespace temper
