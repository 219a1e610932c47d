// What an architecture computes, for tests in Python.
//   ARCHITECTURE: prints name and shape of each tensor of its state dict.
//   ARCHITECTURE WEIGHTS INPUT OUT: loads weights as a run does and prints its line; writes logits
//   and gradients for the images, the weight of each logit and the normalisation in INPUT.

#include <ATen/ATen.h>

#include <iostream>

#include "models/pre_activation.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/models/model_state.h"
#include "temper/recipe/build.h"

namespace temper {
namespace {

Catalog<Classifier, ArchitectureOptions> architectures() {
  auto all = built_in_architectures();
  const auto small = [](PreActivationForm form) {
    return [form](const ArchitectureOptions& options) {
      return make_wide_resnet({.depth = 16, .width = 2, .form = form}, options);
    };
  };
  all.add("wideresnet16_2", small(PreActivationForm::kTradesWideResNet));
  all.add("wideresnet16_2_silu", small(PreActivationForm::kDeepMindWideResNet));
  return all;
}

std::vector<double> numbers(const at::Tensor& tensor) {
  return {tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel()};
}

void add_forward(const std::string& prefix, Classifier& model, const ValueDict& input,
                 ValueDict& out) {
  const at::Tensor images = input.at("images").as_tensor().detach().requires_grad_(true);
  const at::Tensor logits = model.forward(images);
  (logits * input.at("weights").as_tensor()).sum().backward();
  out[prefix + "logits"] = logits.detach();
  out[prefix + "image_gradient"] = images.grad();
}

ValueDict compute(Classifier& model, const ValueDict& input) {
  ValueDict out;
  {
    const AttackStateGuard attack(model, StatisticsMode::kRunning);
    add_forward("attack/", model, input, out);
    const at::NoGradGuard no_grad;
    out["evaluation/logits"] = model.forward(input.at("images").as_tensor());
  }
  add_forward("training/", model, input, out);
  PendingStatistics(model).commit(at::ones({}, at::kBool));
  for (const auto& item : model.named_parameters()) {
    out["gradient/" + item.key()] = item.value().grad();
  }
  for (const auto& [name, tensor] : state_dict(model)) {
    out["state/" + name] = tensor.detach();
  }
  return out;
}

void run(const std::string& architecture, char** paths) {
  const Value file = read_pytorch_file(paths[1]);
  const ValueDict& input = file.as_dict();
  const at::Tensor images = input.at("images").as_tensor();
  ArchitectureOptions options{.classes = input.at("weights").as_tensor().size(1),
                              .channels = images.size(1),
                              .image_size = images.size(2)};
  if (input.contains("mean")) {
    options.normalization = {numbers(input.at("mean").as_tensor()),
                             numbers(input.at("std").as_tensor())};
  }
  const auto model = architectures().make(architecture, options);
  model->to(at::kDouble);
  ModelConfig config;
  config.architecture = architecture;
  config.initial_weights = paths[0];
  std::cout << load_initial_weights(*model, config) << '\n';
  write_checkpoint(paths[2], compute(*model, input));
}

void print_names(const std::string& architecture) {
  for (const auto& [name, tensor] : state_dict(*architectures().make(architecture, {}))) {
    std::cout << name << ' ' << tensor.sizes() << '\n';
  }
}

}  // namespace
}  // namespace temper

int main(int argc, char** argv) {
  try {
    if (argc == 2) {
      temper::print_names(argv[1]);
      return 0;
    }
    if (argc == 5) {
      temper::run(argv[1], argv + 2);
      return 0;
    }
    std::cerr << "usage: interop_architecture ARCHITECTURE [WEIGHTS INPUT OUT]\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
