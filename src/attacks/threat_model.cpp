#include "temper/attacks/threat_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace temper {
namespace {

// A per-sample vector in the shape that broadcasts over `like`.
at::Tensor as_samples(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[0] = -1;
  return values.view(shape);
}

constexpr double kTiny = 1e-10;       // keeps a zero gradient zero
constexpr double kRenormTiny = 1e-7;  // of torch.renorm

// By how much the absolute values must shrink for their sum over a sample, each at most `room`, to
// be at most `epsilon`; [N, 1]. The sum is piecewise linear in the shrinkage and falls between the
// sorted breakpoints, where an element leaves its bound and where it reaches zero.
at::Tensor shrinkage(const at::Tensor& size, const at::Tensor& room, double epsilon) {
  const at::Tensor leaves = (size - room).clamp_min(0);
  const auto [points, order] = at::cat({leaves, size}, 1).sort(1);
  const at::Tensor turn = at::cat({at::full_like(leaves, -1), at::ones_like(size)}, 1);
  const at::Tensor slope = turn.gather(1, order).cumsum(1);
  const at::Tensor zero = at::zeros({size.size(0), 1}, size.options());
  const at::Tensor before = at::cat({zero, slope.narrow(1, 0, slope.size(1) - 1)}, 1);
  const at::Tensor widths = points.diff(1, 1, zero);
  const at::Tensor start = at::minimum(size, room).sum(1, /*keepdim=*/true);
  const at::Tensor sums = start + (before * widths).cumsum(1);
  // The last breakpoint at which the sum is still too large; none: the sum is too large from the
  // start or not at all.
  const at::Tensor too_large = sums.gt(epsilon).to(at::kLong).sum(1, true);
  const at::Tensor last = (too_large - 1).clamp_min(0);
  const at::Tensor some = too_large.gt(0);
  const at::Tensor point = at::where(some, points.gather(1, last), zero);
  const at::Tensor sum = at::where(some, sums.gather(1, last), start);
  const at::Tensor falls = at::where(some, -slope.gather(1, last), zero + 1).clamp_min(1);
  return at::where(start.gt(epsilon), point + (sum - epsilon) / falls, zero);
}

// The nearest perturbation of the l1 ball with each element's absolute value at most `room`.
at::Tensor nearest_in_l1(const at::Tensor& perturbation, const at::Tensor& room, double epsilon) {
  if (perturbation.numel() == 0) {
    return perturbation;
  }
  const at::Tensor size = perturbation.abs();
  const at::Tensor shrunk = (size - shrinkage(size, room, epsilon)).clamp_min(0);
  return at::minimum(shrunk, room) * perturbation.sign();
}

}  // namespace

at::Tensor perturbation_norm(const at::Tensor& perturbation, Norm norm) {
  const at::Tensor flat = perturbation.flatten(1);
  return norm == Norm::kLinf ? flat.abs().amax(1) : flat.norm(norm == Norm::kL2 ? 2 : 1, {1});
}

at::Tensor limit(const at::Tensor& perturbation, const ThreatModel& threat_model) {
  const double epsilon = threat_model.epsilon;
  switch (threat_model.norm) {
    case Norm::kLinf:
      return perturbation.clamp(-epsilon, epsilon);
    case Norm::kL2: {
      const at::Tensor length = perturbation_norm(perturbation, Norm::kL2);
      const at::Tensor factor =
          at::where(length.gt(epsilon), epsilon / (length + kRenormTiny), at::ones_like(length));
      return perturbation * as_samples(factor, perturbation);
    }
    case Norm::kL1: {
      const at::Tensor flat = perturbation.flatten(1).to(at::kDouble);
      return nearest_in_l1(flat, flat.abs(), epsilon)
          .view_as(perturbation)
          .to(perturbation.scalar_type());
    }
  }
  return perturbation;
}

at::Tensor project(const at::Tensor& images, const at::Tensor& clean,
                   const ThreatModel& threat_model) {
  const double epsilon = threat_model.epsilon;
  if (threat_model.norm == Norm::kLinf) {
    // Clamping to the intersection of two boxes equals projecting onto one after the other.
    return images.clamp((clean - epsilon).clamp_min(0), (clean + epsilon).clamp_max(1));
  }
  if (threat_model.norm == Norm::kL2) {
    return (clean + limit(images - clean, threat_model)).clamp_(0, 1);
  }
  const at::Tensor from = clean.flatten(1).to(at::kDouble);
  const at::Tensor perturbation = images.flatten(1).to(at::kDouble) - from;
  const at::Tensor room = at::where(perturbation.gt(0), 1 - from, from);
  const at::Tensor nearest = nearest_in_l1(perturbation, room, epsilon);
  return (from + nearest).view_as(clean).to(clean.scalar_type()).clamp_(0, 1);
}

at::Tensor ascent_direction(const at::Tensor& gradient, Norm norm) {
  if (norm == Norm::kLinf || gradient.numel() == 0) {
    return gradient.sign();
  }
  if (norm == Norm::kL2) {
    const at::Tensor length = perturbation_norm(gradient, Norm::kL2);
    return gradient / as_samples(length + kTiny, gradient);
  }
  const at::Tensor size = gradient.flatten(1).abs();
  const auto count = static_cast<std::int64_t>(kSparseShare * static_cast<double>(size.size(1)));
  const at::Tensor least =
      std::get<0>(size.topk(std::max<std::int64_t>(count, 1), 1)).narrow(1, -1, 1);
  const at::Tensor chosen = size.ge(least).logical_and_(size.gt(0)).view_as(gradient);
  const at::Tensor signs = gradient.sign() * chosen;
  return signs / as_samples(perturbation_norm(signs, Norm::kL1).clamp_min(1), signs);
}

at::Tensor movable_part(const at::Tensor& gradient, const at::Tensor& images) {
  const at::Tensor stuck = at::where(gradient.gt(0), images.ge(1), images.le(0));
  return gradient.masked_fill(stuck, 0);
}

}  // namespace temper
