#pragma once
// Operations on all gradients of a model.

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace temper {

// Sets existing gradients to zero in place: they may be views into the buckets of the gradient
// reduction.
void zero_gradients(const std::vector<at::Tensor>& parameters);

// Euclidean norm over all gradients, a scalar on their device; with `max_norm` also scales the
// gradients by min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_. Without a
// host-device synchronisation.
[[nodiscard]] at::Tensor clip_gradient_norm(const std::vector<at::Tensor>& parameters,
                                            std::optional<double> max_norm);

}  // namespace temper
