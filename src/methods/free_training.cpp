#include "temper/methods/free_training.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "methods/forward.h"
#include "temper/core/error.h"
#include "temper/core/text.h"
#include "temper/methods/robust_loss.h"

namespace temper {
namespace {

const std::string kPrefix = "noise/";

}  // namespace

FreeTraining::FreeTraining(const MethodOptions& options)
    : options_(options), before_start_(options) {
  require(options.free.replays >= 1, "free adversarial training needs at least one replay");
}

// Place i of a micro-batch lies on rank i mod world size, at i / world size.
at::Tensor& FreeTraining::noise_of(const StepContext& context, const at::Tensor& images) {
  at::Tensor& noise = noise_[context.micro_batch].current;
  if (!noise.defined()) {
    noise = at::zeros_like(images);
    if (const auto saved = loaded_.find(context.micro_batch); saved != loaded_.end()) {
      require(saved->second.sizes().slice(1) == images.sizes().slice(1),
              "noise of another image size");
      noise = saved->second.slice(0, context.ranks.rank, std::nullopt, context.ranks.world_size)
                  .to(images.options())
                  .clone();
      loaded_.erase(saved);
    }
  }
  if (noise.size(0) < images.size(0)) {
    noise = at::cat({noise, at::zeros_like(images.narrow(0, 0, images.size(0) - noise.size(0)))});
  }
  return noise;
}

at::Tensor FreeTraining::moved(const at::Tensor& noise, const at::Tensor& gradient,
                               const at::Tensor& images, double epsilon_scale) const {
  const FreeOptions& free = options_.free;
  const ThreatModel threat_model{free.threat_model.norm, free.threat_model.epsilon * epsilon_scale};
  const at::Tensor useful = threat_model.norm == Norm::kL1 && free.clamp == NoiseClamp::kNoise
                                ? movable_part(gradient, images + noise)
                                : gradient;
  const at::Tensor step = ascent_direction(useful, threat_model.norm);
  const at::Tensor next = limit(noise.add(step, free.step_size * epsilon_scale), threat_model);
  return free.clamp == NoiseClamp::kNoise ? next.clamp(-images, 1 - images) : next;
}

StepOutput FreeTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  if (context.epoch < options_.start_epoch) {
    return before_start_.compute_gradients(context, batch);
  }
  context.enter_phase("forward_backward");
  context.model.set_random_keys({context.seed, context.update, batch.samples});
  const at::Tensor& carried = noise_of(context, batch.images);
  const std::int64_t count = batch.images.size(0);
  at::Tensor noise = carried.narrow(0, 0, count).clone().requires_grad_(true);
  at::Tensor images = batch.images + noise;
  if (options_.free.clamp == NoiseClamp::kImage) {
    images = images.clamp(0, 1);
  }
  const at::Tensor logits = forward(context.model, images, options_.statistics.adversarial_forward);
  const at::Tensor loss = cross_entropy_sum(logits, batch.loss_targets(), options_.label_smoothing);
  context.backward(loss);

  StepOutput output;
  const at::NoGradGuard no_grad;
  at::Tensor next = carried.clone();
  if (count > 0) {
    const at::Tensor largest = noise.grad().flatten(1).abs().amax(1);
    output.gradients = {largest.eq(0).sum(), largest.isfinite().logical_not().sum()};
    next.narrow(0, 0, count)
        .copy_(moved(noise.detach(), noise.grad().nan_to_num(0, 0, 0), batch.images,
                     warmed_epsilon(options_, context.update, context.updates_per_epoch)));
  } else {
    const at::Tensor none = at::zeros({}, batch.labels.options());
    output.gradients = {none, none};
  }
  noise_[context.micro_batch].next = next;
  output.loss = loss.detach();
  output.robust_loss = output.loss;
  output.predictions = predict(logits);
  output.adversarial_correct = output.predictions.eq(batch.labels).sum();
  output.adversarial_images = images.detach();
  output.adversarial_logits = logits.detach();
  return output;
}

void FreeTraining::after_update(Classifier& /*model*/, const at::Tensor& skip) {
  for (auto& [number, noise] : noise_) {
    if (noise.next.defined()) {
      noise.current = at::where(skip.eq(0), noise.next, noise.current);
      noise.next.reset();
    }
  }
}

StateDict FreeTraining::state(const RankReduction& ranks) const {
  std::map<std::size_t, at::Tensor> all = loaded_;
  for (const auto& [number, noise] : noise_) {
    if (!noise.current.defined()) {
      continue;
    }
    const at::Tensor& own = noise.current;
    at::Tensor whole = own;
    if (ranks.world_size > 1) {
      at::Tensor count = at::full({}, own.size(0), own.options().dtype(at::kDouble));
      ranks.sum(count);
      std::vector<std::int64_t> shape = own.sizes().vec();
      shape[0] = count.to(at::kLong).item<std::int64_t>();
      whole = at::zeros(shape, own.options());
      whole.slice(0, ranks.rank, std::nullopt, ranks.world_size).copy_(own);
      ranks.sum(whole);
    }
    all[number] = whole;
  }
  StateDict out;
  for (const auto& [number, noise] : all) {
    out.emplace_back(kPrefix + std::to_string(number), noise);
  }
  return out;
}

void FreeTraining::load_state(const StateDict& state) {
  noise_.clear();
  loaded_.clear();
  for (const auto& [name, noise] : state) {
    const std::string_view number =
        std::string_view(name).substr(std::min(kPrefix.size(), name.size()));
    const bool counts = !number.empty() && number.size() < 10 &&
                        number.find_first_not_of("0123456789") == std::string_view::npos;
    if (!name.starts_with(kPrefix) || !counts || noise.dim() != 4) {
      throw ConfigError(concat("the saved state of the method has '", name,
                               "': it was saved with another method"));
    }
    loaded_[static_cast<std::size_t>(std::stoul(std::string(number)))] = noise;
  }
}

}  // namespace temper
