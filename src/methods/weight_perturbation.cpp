#include "temper/methods/weight_perturbation.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr double kTiny = 1e-20;  // of the official code

// Adds the gradients up over the ranks in one collective.
void sum_over_ranks(std::vector<at::Tensor>& gradients, const RankReduction& ranks) {
  if (ranks.world_size == 1) {
    return;
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& gradient : gradients) {
    flat.push_back(gradient.reshape({-1}));
  }
  at::Tensor all = at::cat(flat);
  ranks.sum(all);
  std::int64_t place = 0;
  for (at::Tensor& gradient : gradients) {
    gradient = all.narrow(0, place, gradient.numel()).view(gradient.sizes());
    place += gradient.numel();
  }
}

}  // namespace

void WeightPerturbation::find_weights(Classifier& model) {
  if (!weights_.empty()) {
    return;
  }
  for (const auto& item : model.named_parameters()) {
    if (item.value().dim() > 1 && item.key().find("weight") != std::string::npos) {
      names_.push_back(item.key());
      weights_.push_back(item.value());
    }
  }
  require(!weights_.empty(), "a model without weights to perturb");
}

void WeightPerturbation::discard() {
  if (!unperturbed_.empty()) {
    const at::NoGradGuard no_grad;
    at::_foreach_copy_(weights_, unperturbed_);
    unperturbed_.clear();
  }
}

StateDict WeightPerturbation::perturb(Classifier& model, const at::Tensor& loss_sum,
                                      const RankReduction& ranks) {
  require(unperturbed_.empty(), "the weights are perturbed already");
  find_weights(model);
  std::vector<at::Tensor> gradients =
      torch::autograd::grad({loss_sum}, weights_, {}, /*retain_graph=*/std::nullopt,
                            /*create_graph=*/false, /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!gradients[i].defined()) {
      gradients[i] = at::zeros_like(weights_[i]);
    }
  }
  sum_over_ranks(gradients, ranks);
  perturbed_.clear();
  StateDict directions;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor step = gradients[i] * options_.proxy_learning_rate;
    const at::Tensor direction = step * (weights_[i].norm() / (step.norm() + kTiny));
    unperturbed_.push_back(weights_[i].detach().clone());
    weights_[i].add_(direction, options_.gamma);
    perturbed_.push_back(weights_[i].detach().clone());
    directions.emplace_back(names_[i], direction);
  }
  at::autocast::clear_cache();  // of copies of the weights in another type
  return directions;
}

void WeightPerturbation::restore(const at::Tensor& skip) {
  if (unperturbed_.empty()) {
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor skipped = skip.ne(0);
  at::_foreach_sub_(weights_, perturbed_);
  at::_foreach_add_(weights_, unperturbed_);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i].copy_(at::where(skipped, unperturbed_[i], weights_[i]));
  }
  unperturbed_.clear();
  perturbed_.clear();
}

}  // namespace temper
