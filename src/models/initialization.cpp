#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

void fill_within(at::Tensor& parameter, double bound, std::uint64_t seed, std::int64_t place) {
  const at::Tensor unit =
      uniform_tensor({.seed = seed, .purpose = Purpose::kInitialization},
                     at::full({1}, place, at::kLong), {parameter.numel()}, at::kDouble);
  parameter.copy_((unit * 2 - 1).mul_(bound).view(parameter.sizes()));
}

}  // namespace

void initialize(torch::nn::Module& model, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::int64_t place = 0;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (dynamic_cast<torch::nn::Conv2dImpl*>(module.get()) == nullptr &&
        dynamic_cast<torch::nn::LinearImpl*>(module.get()) == nullptr) {
      continue;
    }
    at::Tensor weight = module->named_parameters(/*recurse=*/false)["weight"];
    const double bound = 1 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
    for (at::Tensor& parameter : module->parameters(/*recurse=*/false)) {
      fill_within(parameter, bound, seed, place);
      ++place;
    }
  }
}

}  // namespace temper
