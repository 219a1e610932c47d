#include "temper/models/classifier.h"

#include <ATen/ATen.h>

#include "temper/core/error.h"

namespace temper {

Classifier::Classifier(Normalization normalization) : normalization_(std::move(normalization)) {
  require(normalization_.mean.size() == normalization_.std.size(),
          "mean and std must be of one length");
}

at::Tensor Classifier::forward(const at::Tensor& images) {
  if (normalization_.mean.empty()) {
    return logits(images);
  }
  if (!shift_.defined() || shift_.device() != images.device() ||
      shift_.scalar_type() != images.scalar_type()) {
    const auto options = at::TensorOptions().dtype(at::kDouble);
    shift_ = at::tensor(normalization_.mean, options).view({-1, 1, 1}).to(images.options());
    scale_ = at::tensor(normalization_.std, options).view({-1, 1, 1}).to(images.options());
  }
  return logits((images - shift_) / scale_);
}

const std::vector<BatchNorm*>& Classifier::batch_norms() {
  if (!searched_) {
    batch_norms_ = batch_norm_layers(*this);
    searched_ = true;
  }
  return batch_norms_;
}

void Classifier::set_statistics_mode(StatisticsMode mode) {
  for (BatchNorm* layer : batch_norms()) {
    layer->set_mode(mode);
  }
}

void Classifier::synchronize_batch_norm(const std::shared_ptr<const RankReduction>& reduction) {
  for (BatchNorm* layer : batch_norms()) {
    layer->synchronize(reduction);
  }
}

StatisticsModeGuard::StatisticsModeGuard(Classifier& model, StatisticsMode mode) : model_(model) {
  for (BatchNorm* layer : model_.batch_norms()) {
    saved_.push_back(layer->mode());
    layer->set_mode(mode);
  }
}

StatisticsModeGuard::~StatisticsModeGuard() {
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    model_.batch_norms()[i]->set_mode(saved_[i]);
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
