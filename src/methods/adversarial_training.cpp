#include "temper/methods/adversarial_training.h"

#include <ATen/ATen.h>

#include "temper/core/error.h"

namespace temper {
namespace {

at::Tensor forward(Classifier& model, const at::Tensor& images, StatisticsMode mode) {
  const StatisticsModeGuard guard(model, mode);
  return model.forward(images);
}

// Also of an empty batch.
at::Tensor predict(const at::Tensor& logits) {
  return logits.size(0) == 0 ? at::zeros({0}, logits.options().dtype(at::kLong))
                             : logits.detach().argmax(1);
}

}  // namespace

StepOutput StandardTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  context.enter_phase("forward_backward");
  context.model.set_random_keys({context.seed, context.update, batch.samples});
  const at::Tensor logits = forward(context.model, batch.images, options_.statistics.clean_forward);
  const at::Tensor loss = cross_entropy_sum(logits, batch.loss_targets(), options_.label_smoothing);
  context.backward(loss);
  const at::Tensor predictions = predict(logits);
  return {.loss = loss.detach(),
          .clean_loss = loss.detach(),
          .clean_correct = predictions.eq(batch.labels).sum(),
          .predictions = predictions,
          .clean_logits = logits.detach()};
}

AdversarialTraining::AdversarialTraining(std::shared_ptr<const Attack> attack,
                                         std::shared_ptr<const RobustLoss> loss,
                                         const MethodOptions& options)
    : attack_(std::move(attack)),
      loss_(std::move(loss)),
      options_(options),
      before_start_(options) {
  require(attack_ != nullptr && loss_ != nullptr,
          "adversarial training needs an attack and a loss");
}

at::Tensor AdversarialTraining::attack(StepContext& context, const ImageBatch& batch,
                                       GradientCounts& counts) const {
  // Cutting an attack short on one rank alone is allowed where its forwards hold no collective.
  const bool may_stop = options_.statistics.attack == StatisticsMode::kRunning;
  const at::Tensor adversarial = attack_->perturb(
      context.model, batch.images, batch.loss_targets(),
      {.loss = loss_->inner_loss(),
       .statistics = options_.statistics.attack,
       .samples = batch.samples,
       .seed = context.seed,
       .purpose = Purpose::kAttackStart,
       .index = context.update,
       .start_noise = context.start_noise,
       .stop_requested = may_stop ? context.stop_requested : std::function<bool()>(),
       .gradient_counts = &counts});
  if (logs_like_the_reference()) {
    // The official loop evaluates the attack's loss once more, in the mode of its steps.
    const at::NoGradGuard no_grad;
    static_cast<void>(forward(context.model, adversarial, options_.statistics.attack));
  }
  return adversarial;
}

StepOutput AdversarialTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  if (context.epoch < options_.start_epoch) {
    return before_start_.compute_gradients(context, batch);
  }
  StepOutput output;
  context.enter_phase("attack");
  context.model.set_random_keys({context.seed, context.update, batch.samples});
  output.adversarial_images = attack(context, batch, output.gradients);

  context.enter_phase("forward_backward");
  const PhaseStatistics& statistics = options_.statistics;
  at::Tensor clean_logits;
  if (loss_->has_clean_forward()) {
    clean_logits = forward(context.model, batch.images, statistics.clean_forward);
    output.clean_logits = clean_logits.detach();
    output.predictions = predict(clean_logits);
    output.clean_correct = output.predictions.eq(batch.labels).sum();
  }
  const at::Tensor adversarial_logits =
      forward(context.model, output.adversarial_images, statistics.adversarial_forward);
  output.adversarial_logits = adversarial_logits.detach();
  const at::Tensor predictions = predict(adversarial_logits);
  output.adversarial_correct = predictions.eq(batch.labels).sum();
  if (!output.predictions.defined()) {
    output.predictions = predictions;
  }
  const at::Tensor target_logits =
      options_.reference_order && loss_->repeats_clean_forward()
          ? forward(context.model, batch.images, statistics.clean_forward)
          : clean_logits;
  const LossTerms terms =
      loss_->compute(clean_logits, target_logits, adversarial_logits, batch.loss_targets());
  context.backward(terms.total);
  output.loss = terms.total.detach();
  output.clean_loss = terms.clean.defined() ? terms.clean.detach() : at::Tensor();
  output.robust_loss = terms.robust.detach();
  if (logs_like_the_reference()) {
    logged_images_ = batch.images;
  }
  return output;
}

void AdversarialTraining::after_update(Classifier& model, const at::Tensor& /*skip*/) {
  if (logged_images_.defined()) {
    const at::NoGradGuard no_grad;
    static_cast<void>(forward(model, logged_images_, StatisticsMode::kUpdate));
    logged_images_.reset();
  }
}

Catalog<TrainingMethod, std::shared_ptr<const Attack>, MethodOptions> built_in_methods() {
  using AttackPointer = std::shared_ptr<const Attack>;
  Catalog<TrainingMethod, AttackPointer, MethodOptions> methods("training method");
  methods.add("standard", [](const AttackPointer&, const MethodOptions& options) {
    return std::make_shared<StandardTraining>(options);
  });
  methods.add("trades", [](const AttackPointer& attack, const MethodOptions& options) {
    return std::make_shared<AdversarialTraining>(
        attack, std::make_shared<TradesLoss>(options.beta, options.label_smoothing), options);
  });
  methods.add("mixed", [](const AttackPointer& attack, const MethodOptions& options) {
    return std::make_shared<AdversarialTraining>(
        attack, std::make_shared<MixedLoss>(options.beta, options.label_smoothing), options);
  });
  methods.add("pgd_at", [](const AttackPointer& attack, const MethodOptions& options) {
    return std::make_shared<AdversarialTraining>(
        attack, std::make_shared<AdversarialLoss>(options.label_smoothing), options);
  });
  return methods;
}

}  // namespace temper
