#pragma once
// The threat model: which images an adversary may hand in for a clean one. All quantities are in
// pixel units of [0, 1].

#include <ATen/core/Tensor.h>

namespace temper {

enum class Norm { kLinf, kL2 };

struct ThreatModel {
  Norm norm = Norm::kLinf;
  double epsilon = 8.0 / 255;  // radius of the ball around the clean image
};

// The perturbation norm of each sample, shape [N].
[[nodiscard]] at::Tensor perturbation_norm(const at::Tensor& perturbation, Norm norm);

// The nearest point of the ball around `clean`, then of the box [0, 1]; both shaped [N, ...]. Clean
// images in the box stay feasible, since the ball and the box are convex and contain them.
[[nodiscard]] at::Tensor project(const at::Tensor& images, const at::Tensor& clean,
                                 const ThreatModel& threat_model);

// The direction of steepest ascent per sample: the sign for linf, the gradient scaled to length one
// for l2. A zero gradient gives zero.
[[nodiscard]] at::Tensor ascent_direction(const at::Tensor& gradient, Norm norm);

}  // namespace temper
