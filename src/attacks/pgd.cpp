#include "temper/attacks/pgd.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper {
namespace {

at::Tensor inner_loss(const at::Tensor& logits, const at::Tensor& labels,
                      const at::Tensor& clean_log_probabilities, InnerLoss loss) {
  if (loss == InnerLoss::kKlDivergence) {
    return at::kl_div(at::log_softmax(logits, 1), clean_log_probabilities, at::Reduction::Sum,
                      /*log_target=*/true);
  }
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
}

RandomStream start_stream(const AttackContext& context, std::uint8_t layer) {
  return {.seed = context.seed, .purpose = context.purpose, .layer = layer, .index = context.index};
}

}  // namespace

at::Tensor PgdAttack::start(const at::Tensor& clean, const AttackContext& context) const {
  if (!context.start_noise.defined() && options_.random_start == RandomStart::kNone) {
    return clean.clone();
  }
  const bool clip = options_.random_start == RandomStart::kUniform;
  const auto draw = [&](auto&& generator, std::uint8_t layer, at::IntArrayRef shape) {
    return generator(start_stream(context, layer), context.samples, shape, clean.options());
  };
  const double epsilon = threat_model_.epsilon;
  at::Tensor noise = context.start_noise;
  if (!noise.defined() && options_.random_start == RandomStart::kNormal) {
    noise = draw(normal_tensor, 0, clean.sizes().slice(1)) * options_.start_scale;
  } else if (!noise.defined() && threat_model_.norm == Norm::kLinf) {
    noise = (draw(uniform_tensor, 0, clean.sizes().slice(1)) * 2 - 1) * epsilon;
  } else if (!noise.defined()) {
    const at::Tensor direction =
        ascent_direction(draw(normal_tensor, 0, clean.sizes().slice(1)), Norm::kL2);
    noise = direction * draw(uniform_tensor, 1, {1, 1, 1}) * epsilon;
  }
  const at::Tensor images = clean + noise;
  return clip ? images.clamp(0, 1) : images;
}

at::Tensor PgdAttack::perturb(Classifier& model, const at::Tensor& images, const at::Tensor& labels,
                              const AttackContext& context) const {
  require(!images.is_inference(),
          "an attack needs images that autograd may record, not inference tensors");
  const AttackStateGuard state(model, context.statistics);
  const at::AutoGradMode recording(true);
  const at::Tensor clean = images.detach();
  at::Tensor clean_log_probabilities;
  if (context.loss == InnerLoss::kKlDivergence) {
    const at::NoGradGuard no_grad;
    clean_log_probabilities = at::log_softmax(model.forward(clean), 1);
  }
  at::Tensor adversarial = start(clean, context);
  for (int step = 0; step < options_.steps; ++step) {
    if (context.stop_requested && context.stop_requested()) {
      break;
    }
    adversarial.requires_grad_(true);
    const at::Tensor loss =
        inner_loss(model.forward(adversarial), labels, clean_log_probabilities, context.loss);
    const at::Tensor gradient = torch::autograd::grad({loss}, {adversarial}).front();
    const at::NoGradGuard no_grad;
    adversarial = adversarial.detach();
    adversarial =
        project(adversarial.add(ascent_direction(gradient, threat_model_.norm), options_.step_size),
                clean, threat_model_);
  }
  return adversarial.detach();
}

PgdAttack fgsm_attack(const ThreatModel& threat_model) {
  return PgdAttack(
      threat_model,
      {.steps = 1, .step_size = threat_model.epsilon, .random_start = RandomStart::kNone});
}

Catalog<Attack, ThreatModel, PgdOptions> built_in_attacks() {
  Catalog<Attack, ThreatModel, PgdOptions> attacks("attack");
  attacks.add("fgsm", [](const ThreatModel& threat_model, const PgdOptions&) {
    return std::make_shared<PgdAttack>(fgsm_attack(threat_model));
  });
  attacks.add("pgd", [](const ThreatModel& threat_model, const PgdOptions& options) {
    return std::make_shared<PgdAttack>(threat_model, options);
  });
  return attacks;
}

}  // namespace temper
