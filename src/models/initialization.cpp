#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "pre_activation.h"
#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

RandomStream stream_of(std::uint64_t seed) {
  return {.seed = seed, .purpose = Purpose::kInitialization};
}

void fill_within(at::Tensor& parameter, double bound, std::uint64_t seed, std::int64_t place) {
  const at::Tensor unit = uniform_tensor(stream_of(seed), at::full({1}, place, at::kLong),
                                         {parameter.numel()}, at::kDouble);
  parameter.copy_((unit * 2 - 1).mul_(bound).view(parameter.sizes()));
}

void fill_normal(at::Tensor& weight, std::uint64_t seed, std::int64_t place) {
  const double fan_out = static_cast<double>(weight.numel() / weight.size(1));
  at::Tensor normal = normal_tensor(stream_of(seed), at::full({1}, place, at::kLong),
                                    {weight.numel()}, at::kDouble);
  weight.copy_(normal.mul_(std::sqrt(2 / fan_out)).view(weight.sizes()));
}

bool is_wide_resnet(const torch::nn::Module& model) {
  const auto form = pre_activation_form(model);
  return form && *form != PreActivationForm::kPreActResNet;
}

}  // namespace

void initialize(torch::nn::Module& model, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  const bool wide = is_wide_resnet(model);
  std::int64_t place = 0;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (dynamic_cast<torch::nn::Conv2dImpl*>(module.get()) == nullptr &&
        dynamic_cast<torch::nn::LinearImpl*>(module.get()) == nullptr) {
      continue;
    }
    at::Tensor weight = module->named_parameters(/*recurse=*/false)["weight"];
    const double bound = 1 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
    for (at::Tensor& parameter : module->parameters(/*recurse=*/false)) {
      if (wide && parameter.dim() == 4) {
        fill_normal(parameter, seed, place);
      } else if (wide && parameter.dim() == 1) {
        parameter.zero_();
      } else {
        fill_within(parameter, bound, seed, place);
      }
      ++place;
    }
  }
}

}  // namespace temper
