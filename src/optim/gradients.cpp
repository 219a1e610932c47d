#include "temper/optim/gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include "temper/core/error.h"

namespace temper {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) {
      gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

}  // namespace

void zero_gradients(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (!gradients.empty()) {
    at::_foreach_zero_(gradients);
  }
}

at::Tensor clip_gradient_norm(const std::vector<at::Tensor>& parameters,
                              std::optional<double> max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients = gradients_of(parameters);
  require(!gradients.empty(), "no parameter has a gradient");
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
  if (max_norm) {
    at::_foreach_mul_(gradients, (*max_norm / (norm + 1e-6)).clamp_max(1));
  }
  return norm;
}

}  // namespace temper
