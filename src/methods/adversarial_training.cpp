#include "temper/methods/adversarial_training.h"

#include <ATen/ATen.h>

#include "methods/forward.h"
#include "temper/core/error.h"

namespace temper {
namespace {

const char* const kStepsFactor = "attack_steps_factor";

// Statistics that a forward for the perturbation alone must not write.
StatisticsMode without_update(StatisticsMode mode) {
  return mode == StatisticsMode::kUpdate ? StatisticsMode::kBatch : mode;
}

}  // namespace

AdversarialTraining::AdversarialTraining(std::shared_ptr<const Attack> attack,
                                         std::shared_ptr<const RobustLoss> loss,
                                         const MethodOptions& options)
    : attack_(std::move(attack)),
      loss_(std::move(loss)),
      options_(options),
      before_start_(options) {
  require(attack_ != nullptr && loss_ != nullptr,
          "adversarial training needs an attack and a loss");
  if (options.weight_perturbation) {
    perturbation_.emplace(*options.weight_perturbation);
  }
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
       .epsilon_scale = warmed_epsilon(options_, context.update, context.updates_per_epoch),
       .steps_factor = steps_factor_,
       .stop_requested = may_stop ? context.stop_requested : std::function<bool()>(),
       .gradient_counts = &counts});
  if (logs_like_the_reference()) {
    // The official loop evaluates the attack's loss once more, in the mode of its steps.
    const at::NoGradGuard no_grad;
    static_cast<void>(forward(context.model, adversarial, options_.statistics.attack));
  }
  return adversarial;
}

AdversarialTraining::OuterLogits AdversarialTraining::outer_forwards(
    Classifier& model, const at::Tensor& clean, const at::Tensor& adversarial,
    const PhaseStatistics& statistics) const {
  OuterLogits logits;
  const bool repeats = options_.reference_order && loss_->repeats_clean_forward();
  const auto clean_forward = [&] { return forward(model, clean, statistics.clean_forward); };
  // The official code of TRADES runs the adversarial forward between the two clean ones, with a
  // weight perturbation before them; running statistics depend on the order.
  const bool adversarial_first = repeats && perturbation_;
  if (adversarial_first) {
    logits.adversarial = forward(model, adversarial, statistics.adversarial_forward);
    logits.robust_target = clean_forward();
    logits.clean = clean_forward();
    return logits;
  }
  if (loss_->has_clean_forward()) {
    logits.clean = clean_forward();
  }
  logits.adversarial = forward(model, adversarial, statistics.adversarial_forward);
  logits.robust_target = repeats ? clean_forward() : logits.clean;
  return logits;
}

LossTerms AdversarialTraining::outer_loss(const OuterLogits& logits,
                                          const ImageBatch& batch) const {
  return loss_->compute(logits.clean, logits.robust_target, logits.adversarial,
                        batch.loss_targets());
}

void AdversarialTraining::perturb_weights(StepContext& context, const ImageBatch& batch,
                                          StepOutput& output) {
  if (context.epoch < perturbation_->options().start_epoch) {
    return;
  }
  const PhaseStatistics& statistics = options_.statistics;
  const OuterLogits logits =
      outer_forwards(context.model, batch.images, output.adversarial_images,
                     {.clean_forward = without_update(statistics.clean_forward),
                      .adversarial_forward = without_update(statistics.adversarial_forward)});
  const at::Tensor loss = outer_loss(logits, batch).total;
  output.weight_directions = perturbation_->perturb(context.model, loss, context.ranks);
  output.proxy_loss = loss.detach();
  output.proxy_adversarial_logits = logits.adversarial.detach();
}

StepOutput AdversarialTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  if (context.epoch < options_.start_epoch) {
    return before_start_.compute_gradients(context, batch);
  }
  StepOutput output;
  if (perturbation_) {
    perturbation_->discard();  // that of the micro-batch before: the attack meets the true weights
  }
  context.enter_phase("attack");
  context.model.set_random_keys({context.seed, context.update, batch.samples});
  output.adversarial_images = attack(context, batch, output.gradients);

  context.enter_phase("forward_backward");
  if (perturbation_) {
    perturb_weights(context, batch, output);
  }
  const OuterLogits logits =
      outer_forwards(context.model, batch.images, output.adversarial_images, options_.statistics);
  const LossTerms terms = outer_loss(logits, batch);
  context.backward(terms.total);

  const at::Tensor predictions = predict(logits.adversarial);
  output.adversarial_logits = logits.adversarial.detach();
  output.adversarial_correct = predictions.eq(batch.labels).sum();
  output.predictions = predictions;
  if (logits.clean.defined()) {
    output.clean_logits = logits.clean.detach();
    output.predictions = predict(logits.clean);
    output.clean_correct = output.predictions.eq(batch.labels).sum();
  }
  output.loss = terms.total.detach();
  output.clean_loss = terms.clean.defined() ? terms.clean.detach() : at::Tensor();
  output.robust_loss = terms.robust.detach();
  if (logs_like_the_reference()) {
    logged_images_ = batch.images;
  }
  return output;
}

void AdversarialTraining::after_update(Classifier& model, const at::Tensor& skip) {
  if (perturbation_) {
    perturbation_->restore(skip);
  }
  if (logged_images_.defined()) {
    const at::NoGradGuard no_grad;
    static_cast<void>(forward(model, logged_images_, StatisticsMode::kUpdate));
    logged_images_.reset();
  }
}

int AdversarialTraining::strengthen_attack() {
  require(can_strengthen_attack(), "the attack takes ", steps_factor_, " times its steps already");
  steps_factor_ *= 2;
  return steps_factor_;
}

StateDict AdversarialTraining::state(const RankReduction& /*ranks*/) const {
  return steps_factor_ == 1 ? StateDict()
                            : StateDict{{kStepsFactor, at::tensor(steps_factor_, at::kLong)}};
}

void AdversarialTraining::load_state(const StateDict& state) {
  steps_factor_ = 1;
  for (const auto& [name, value] : state) {
    if (name != kStepsFactor) {
      throw ConfigError(concat("the saved state of the method has '", name,
                               "': it was saved with another method"));
    }
    steps_factor_ = value.item<int>();
  }
}

}  // namespace temper
