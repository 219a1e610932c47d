#pragma once
// The threat model: which images an adversary may hand in for a clean one. All quantities are in
// pixel units of [0, 1].

#include <ATen/core/Tensor.h>

namespace temper {

enum class Norm { kLinf, kL2, kL1 };

struct ThreatModel {
  Norm norm = Norm::kLinf;
  double epsilon = 8.0 / 255;  // radius of the ball around the clean image
};

// The perturbation norm of each sample, shape [N].
[[nodiscard]] at::Tensor perturbation_norm(const at::Tensor& perturbation, Norm norm);

// The perturbation scaled (l2), clamped (linf) or moved to the nearest point (l1) of the ball
// around zero; shaped [N, ...]. As torch.renorm, on which the official codes build, l2 divides by
// the norm
// + 1e-7, which ends a hair inside the ball.
[[nodiscard]] at::Tensor limit(const at::Tensor& perturbation, const ThreatModel& threat_model);

// A point of the ball around `clean` and the box [0, 1]; both shaped [N, ...]. Clean images in the
// box stay feasible, since the ball and the box are convex and contain them. linf: the nearest
// point of the intersection. l2: the nearest of the ball, then of the box. l1: the nearest of the
// intersection, exactly (Croce and Hein, "Mind the box: l1-APGD for sparse adversarial attacks on
// image classifiers", 2021, proposition 2.1), computed in double.
[[nodiscard]] at::Tensor project(const at::Tensor& images, const at::Tensor& clean,
                                 const ThreatModel& threat_model);

// The share of coordinates that a step in l1 moves.
inline constexpr double kSparseShare = 0.05;

// The direction of an ascent step per sample, of length one: the sign for linf, the scaled gradient
// for l2, and for l1 equal steps along the signs of the largest kSparseShare of coordinates, at
// least one (Tramer and Boneh, "Adversarial training and robustness for multiple perturbations",
// 2019, section 4). A zero gradient gives zero.
[[nodiscard]] at::Tensor ascent_direction(const at::Tensor& gradient, Norm norm);

// The gradient where a step along it stays in the box, zero where the pixel is at its bound.
[[nodiscard]] at::Tensor movable_part(const at::Tensor& gradient, const at::Tensor& images);

}  // namespace temper
