#include "temper/attacks/threat_model.h"

#include <ATen/ATen.h>

#include <vector>

namespace temper {
namespace {

// A per-sample vector in the shape that broadcasts over `like`.
at::Tensor as_samples(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[0] = -1;
  return values.view(shape);
}

constexpr double kTiny = 1e-10;  // keeps a zero gradient zero

}  // namespace

at::Tensor perturbation_norm(const at::Tensor& perturbation, Norm norm) {
  const at::Tensor flat = perturbation.flatten(1);
  return norm == Norm::kLinf ? flat.abs().amax(1) : flat.norm(2, {1});
}

at::Tensor project(const at::Tensor& images, const at::Tensor& clean,
                   const ThreatModel& threat_model) {
  const double epsilon = threat_model.epsilon;
  if (threat_model.norm == Norm::kLinf) {
    // Clamping to the intersection of two boxes equals projecting onto one after the other.
    return images.clamp((clean - epsilon).clamp_min(0), (clean + epsilon).clamp_max(1));
  }
  const at::Tensor perturbation = images - clean;
  const at::Tensor length = perturbation_norm(perturbation, Norm::kL2);
  const at::Tensor factor = (epsilon / length.clamp_min(kTiny)).clamp_max(1);
  return (clean + perturbation * as_samples(factor, perturbation)).clamp_(0, 1);
}

at::Tensor ascent_direction(const at::Tensor& gradient, Norm norm) {
  if (norm == Norm::kLinf) {
    return gradient.sign();
  }
  const at::Tensor length = perturbation_norm(gradient, Norm::kL2);
  return gradient / as_samples(length + kTiny, gradient);
}

}  // namespace temper
