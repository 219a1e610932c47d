#include "temper/methods/adversarial_training.h"

#include <ATen/ATen.h>

#include "temper/core/error.h"

namespace temper {
namespace {

at::Tensor forward(Classifier& model, const at::Tensor& images, StatisticsMode mode) {
  const StatisticsModeGuard guard(model, mode);
  return model.forward(images);
}

at::Tensor count_correct(const at::Tensor& logits, const at::Tensor& labels) {
  if (logits.size(0) == 0) {
    return at::zeros({}, labels.options());
  }
  return logits.detach().argmax(1).eq(labels).sum();
}

}  // namespace

StepOutput StandardTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  context.enter_phase("forward_backward");
  const at::Tensor logits = forward(context.model, batch.images, options_.statistics.clean_forward);
  const at::Tensor loss = cross_entropy_sum(logits, batch.labels, options_.label_smoothing);
  context.backward(loss);
  const at::Tensor zero = at::zeros({}, loss.options());
  return {.loss = loss.detach(),
          .clean_loss = loss.detach(),
          .robust_loss = zero,
          .clean_correct = count_correct(logits, batch.labels),
          .adversarial_correct = zero,
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

StepOutput AdversarialTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  if (context.epoch < options_.start_epoch) {
    return before_start_.compute_gradients(context, batch);
  }
  context.enter_phase("attack");
  const at::Tensor adversarial = attack_->perturb(context.model, batch.images, batch.labels,
                                                  {.loss = loss_->inner_loss(),
                                                   .statistics = options_.statistics.attack,
                                                   .samples = batch.samples,
                                                   .seed = context.seed,
                                                   .purpose = Purpose::kAttackStart,
                                                   .index = context.update,
                                                   .start_noise = context.start_noise,
                                                   .stop_requested = context.stop_requested});
  context.enter_phase("forward_backward");
  const PhaseStatistics& statistics = options_.statistics;
  const at::Tensor clean_logits = forward(context.model, batch.images, statistics.clean_forward);
  const at::Tensor adversarial_logits =
      forward(context.model, adversarial, statistics.adversarial_forward);
  const at::Tensor target_logits =
      options_.reference_order && loss_->repeats_clean_forward()
          ? forward(context.model, batch.images, statistics.clean_forward)
          : clean_logits;
  const LossTerms terms =
      loss_->compute(clean_logits, target_logits, adversarial_logits, batch.labels);
  context.backward(terms.total);
  return {.loss = terms.total.detach(),
          .clean_loss = terms.clean.detach(),
          .robust_loss = terms.robust.detach(),
          .clean_correct = count_correct(clean_logits, batch.labels),
          .adversarial_correct = count_correct(adversarial_logits, batch.labels),
          .adversarial_images = adversarial,
          .clean_logits = clean_logits.detach(),
          .adversarial_logits = adversarial_logits.detach()};
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
  return methods;
}

}  // namespace temper
