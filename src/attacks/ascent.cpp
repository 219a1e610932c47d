#include "attacks/ascent.h"

#include <ATen/ATen.h>

#include <limits>

namespace temper {

at::Tensor over_images(const at::Tensor& per_sample) { return per_sample.view({-1, 1, 1, 1}); }

GradientWatch::GradientWatch(const AttackContext& context, const at::Tensor& images)
    : counts_(context.gradient_counts) {
  if (counts_ != nullptr) {
    zero_ = at::zeros({images.size(0)}, images.options().dtype(at::kBool));
    nonfinite_ = zero_.clone();
  }
}

void GradientWatch::add(const at::Tensor& gradient) {
  if (counts_ != nullptr && gradient.size(0) > 0) {
    const at::Tensor largest = gradient.flatten(1).abs().amax(1);
    zero_.logical_or_(largest.eq(0));
    nonfinite_.logical_or_(largest.isfinite().logical_not());
  }
}

void GradientWatch::report() const {
  if (counts_ != nullptr) {
    *counts_ = {zero_.sum(), nonfinite_.sum()};
  }
}

at::Tensor BestSoFar::offer(const at::Tensor& images, const at::Tensor& losses) {
  const at::NoGradGuard no_grad;
  if (!images_.defined()) {
    images_ = images.detach().clone();
    losses_ = at::full_like(losses, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor better = losses.gt(losses_);
  images_ = at::where(over_images(better), images.detach(), images_);
  losses_ = at::where(better, losses.detach(), losses_);
  return better;
}

}  // namespace temper
