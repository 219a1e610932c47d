#include "temper/models/classifier.h"

#include <ATen/ATen.h>

#include "temper/core/error.h"

namespace temper {

Classifier::Classifier(Normalization normalization) : normalization_(std::move(normalization)) {
  require(normalization_.mean.size() == normalization_.std.size(),
          "mean and std must be of one length");
}

at::Tensor Classifier::forward(const at::Tensor& images) {
  for (std::size_t layer = 0; layer < dropouts().size(); ++layer) {
    dropouts()[layer]->set_keys(random_keys_, static_cast<std::uint8_t>(layer), forwards_);
  }
  ++forwards_;
  return logits(normalize(images));
}

at::Tensor Classifier::normalize(const at::Tensor& images) {
  if (normalization_.mean.empty()) {
    return images;
  }
  if (!shift_.defined() || shift_.device() != images.device() ||
      shift_.scalar_type() != images.scalar_type()) {
    const auto options = at::TensorOptions().dtype(at::kDouble);
    shift_ = at::tensor(normalization_.mean, options).view({-1, 1, 1}).to(images.options());
    scale_ = at::tensor(normalization_.std, options).view({-1, 1, 1}).to(images.options());
  }
  return (images - shift_) / scale_;
}

void Classifier::search_layers() {
  if (searched_) {
    return;
  }
  batch_norms_ = batch_norm_layers(*this);
  for (const auto& child : modules(/*include_self=*/false)) {
    if (auto* layer = dynamic_cast<Dropout*>(child.get())) {
      dropouts_.push_back(layer);
    }
  }
  searched_ = true;
}

const std::vector<BatchNorm*>& Classifier::batch_norms() {
  search_layers();
  return batch_norms_;
}

const std::vector<Dropout*>& Classifier::dropouts() {
  search_layers();
  return dropouts_;
}

void Classifier::set_random_keys(const RandomKeys& keys) {
  random_keys_ = keys;
  forwards_ = 0;
}

void Classifier::set_statistics_mode(StatisticsMode mode) {
  for (BatchNorm* layer : batch_norms()) {
    layer->set_mode(mode);
  }
  for (Dropout* layer : dropouts()) {
    layer->set_mode(mode);
  }
}

void Classifier::synchronize_batch_norm(const std::shared_ptr<const RankReduction>& reduction) {
  for (BatchNorm* layer : batch_norms()) {
    layer->synchronize(reduction);
  }
}

StatisticsModeGuard::StatisticsModeGuard(Classifier& model, StatisticsMode mode) : model_(model) {
  for (const BatchNorm* layer : model_.batch_norms()) {
    saved_.push_back(layer->mode());
  }
  for (const Dropout* layer : model_.dropouts()) {
    saved_.push_back(layer->mode());
  }
  model_.set_statistics_mode(mode);
}

StatisticsModeGuard::~StatisticsModeGuard() {
  auto saved = saved_.begin();
  for (BatchNorm* layer : model_.batch_norms()) {
    layer->set_mode(*saved++);
  }
  for (Dropout* layer : model_.dropouts()) {
    layer->set_mode(*saved++);
  }
}

AttackStateGuard::AttackStateGuard(Classifier& model, StatisticsMode mode) : mode_(model, mode) {
  for (at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) {
      parameter.set_requires_grad(false);
      frozen_.push_back(parameter);
    }
  }
}

AttackStateGuard::~AttackStateGuard() {
  for (at::Tensor& parameter : frozen_) {
    parameter.set_requires_grad(true);
  }
}

}  // namespace temper
