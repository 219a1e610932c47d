#include "temper/models/batch_norm.h"

#include <ATen/ATen.h>

#include "sync_batch_norm.h"
#include "temper/core/error.h"

namespace temper {

BatchNorm::BatchNorm(std::int64_t features, double eps, double momentum, bool affine)
    : torch::nn::Module("BatchNorm"), eps_(eps), momentum_(momentum) {
  if (affine) {
    weight = register_parameter("weight", at::ones({features}));
    bias = register_parameter("bias", at::zeros({features}));
  }
  running_mean = register_buffer("running_mean", at::zeros({features}));
  running_var = register_buffer("running_var", at::ones({features}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

void BatchNorm::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  Module::to(device, dtype, non_blocking);
  num_batches_tracked.set_data(num_batches_tracked.to(at::kLong));
}

void BatchNorm::to(torch::Dtype dtype, bool non_blocking) {
  Module::to(dtype, non_blocking);
  num_batches_tracked.set_data(num_batches_tracked.to(at::kLong));
}

void BatchNorm::synchronize(std::shared_ptr<const RankReduction> reduction) {
  reduction_ = reduction && reduction->world_size > 1 ? std::move(reduction) : nullptr;
}

BatchNorm::Pending& BatchNorm::pending() {
  if (!pending_) {
    const at::NoGradGuard no_grad;
    pending_ = Pending{running_mean.clone(), running_var.clone()};
  }
  return *pending_;
}

at::Tensor BatchNorm::forward(const at::Tensor& input) {
  if (mode_ == StatisticsMode::kRunning) {
    // The graph keeps what it was computed with: a later commit must not reach into it.
    const bool recorded = at::GradMode::is_enabled();
    return at::batch_norm(
        input, weight, bias, recorded ? running_mean.detach().clone() : running_mean,
        recorded ? running_var.detach().clone() : running_var, false, momentum_, eps_, true);
  }
  Pending* recorded = nullptr;
  if (mode_ == StatisticsMode::kUpdate) {
    recorded = &pending();
    recorded->samples += input.size(0);
    recorded->forwards += 1;
  }
  if (reduction_) {
    return sync_batch_norm(input, weight, bias,
                           {.reduction = reduction_,
                            .eps = eps_,
                            .momentum = momentum_,
                            .running_mean = recorded ? recorded->mean : at::Tensor(),
                            .running_var = recorded ? recorded->var : at::Tensor()});
  }
  return forward_local(input, recorded);
}

at::Tensor BatchNorm::forward_local(const at::Tensor& input, Pending* recorded) {
  if (input.numel() == input.size(1)) {
    throw ConfigError(concat(
        "batch norm got a single value per channel on this rank (", input.size(0),
        " sample): enlarge the batch size, drop the incomplete batch with data.last_batch=drop, "
        "or, with more processes, use model.batch_norm=sync"));
  }
  return at::batch_norm(input, weight, bias, recorded ? recorded->mean : at::Tensor(),
                        recorded ? recorded->var : at::Tensor(), true, momentum_, eps_, true);
}

std::vector<BatchNorm*> batch_norm_layers(torch::nn::Module& module) {
  std::vector<BatchNorm*> layers;
  if (auto* layer = dynamic_cast<BatchNorm*>(&module)) {
    layers.push_back(layer);
  }
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* layer = dynamic_cast<BatchNorm*>(child.get())) {
      layers.push_back(layer);
    }
  }
  return layers;
}

PendingStatistics::PendingStatistics(torch::nn::Module& model) : layers_(batch_norm_layers(model)) {
  for (const BatchNorm* layer : layers_) {
    if (!layer->is_synchronized()) {
      flat_size_ += 2 * layer->running_mean.numel() + 1;
    }
  }
}

void PendingStatistics::pack(at::Tensor& flat) const {
  const at::NoGradGuard no_grad;
  std::int64_t offset = 0;
  for (const BatchNorm* layer : layers_) {
    if (layer->is_synchronized()) {
      continue;
    }
    const std::int64_t channels = layer->running_mean.numel();
    at::Tensor part = flat.narrow(0, offset, 2 * channels + 1);
    offset += part.numel();
    if (!layer->pending_ || layer->pending_->samples == 0) {
      part.zero_();
      continue;
    }
    const auto samples = static_cast<double>(layer->pending_->samples);
    part.narrow(0, 0, channels).copy_(layer->pending_->mean).mul_(samples);
    part.narrow(0, channels, channels).copy_(layer->pending_->var).mul_(samples);
    part[2 * channels].fill_(samples);
  }
}

void PendingStatistics::unpack(const at::Tensor& summed) {
  const at::NoGradGuard no_grad;
  std::int64_t offset = 0;
  for (BatchNorm* layer : layers_) {
    if (layer->is_synchronized()) {
      continue;
    }
    const std::int64_t channels = layer->running_mean.numel();
    const at::Tensor part = summed.narrow(0, offset, 2 * channels + 1);
    offset += part.numel();
    if (!layer->pending_) {
      continue;
    }
    const at::Tensor average = part.narrow(0, 0, 2 * channels) / part[2 * channels].clamp_min(1);
    layer->pending_->mean.copy_(average.narrow(0, 0, channels));
    layer->pending_->var.copy_(average.narrow(0, channels, channels));
  }
}

at::Tensor PendingStatistics::are_finite() const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const BatchNorm* layer : layers_) {
    if (layer->pending_) {
      values.insert(values.end(), {layer->pending_->mean, layer->pending_->var});
    }
  }
  if (values.empty()) {
    const auto options = layers_.empty() ? at::TensorOptions() : layers_[0]->running_mean.options();
    return at::ones({}, options.dtype(at::kBool));
  }
  // Few kernels for any number of layers: a sum of sizes is finite where all values are.
  return at::stack(at::_foreach_norm(values, 1)).isfinite().all();
}

void PendingStatistics::commit(const at::Tensor& applied) {
  const at::NoGradGuard no_grad;
  for (BatchNorm* layer : layers_) {
    if (!layer->pending_) {
      continue;
    }
    const BatchNorm::Pending& pending = *layer->pending_;
    layer->running_mean.copy_(at::where(applied, pending.mean, layer->running_mean));
    layer->running_var.copy_(at::where(applied, pending.var, layer->running_var));
    layer->num_batches_tracked.add_(applied.to(at::kLong), pending.forwards);
    layer->pending_.reset();
  }
}

void PendingStatistics::drop() {
  for (BatchNorm* layer : layers_) {
    layer->pending_.reset();
  }
}

}  // namespace temper
