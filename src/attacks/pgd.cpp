#include "temper/attacks/pgd.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "attacks/objective.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper {
namespace {

constexpr std::uint8_t kRadiusLayer = 1;
constexpr std::uint8_t kZeroGradientLayer = 3;

// Per-sample masks of gradients that lead nowhere.
class GradientWatch {
 public:
  explicit GradientWatch(const at::Tensor& images)
      : zero_(at::zeros({images.size(0)}, images.options().dtype(at::kBool))),
        nonfinite_(zero_.clone()) {}

  void add(const at::Tensor& gradient) {
    const at::Tensor largest = gradient.flatten(1).abs().amax(1);
    zero_.logical_or_(largest.eq(0));
    nonfinite_.logical_or_(largest.isfinite().logical_not());
  }
  [[nodiscard]] GradientCounts counts() const { return {zero_.sum(), nonfinite_.sum()}; }

 private:
  at::Tensor zero_;
  at::Tensor nonfinite_;
};

// Per sample the images with the largest loss so far. A loss that is not a number never wins.
class BestSoFar {
 public:
  void offer(const at::Tensor& images, const at::Tensor& losses) {
    const at::NoGradGuard no_grad;
    if (!images_.defined()) {
      images_ = images.detach().clone();
      losses_ = at::full_like(losses, -std::numeric_limits<double>::infinity());
    }
    const at::Tensor better = losses.gt(losses_);
    images_ = at::where(better.view({-1, 1, 1, 1}), images.detach(), images_);
    losses_ = at::where(better, losses.detach(), losses_);
  }
  [[nodiscard]] const at::Tensor& images() const { return images_; }

 private:
  at::Tensor images_;
  at::Tensor losses_;
};

}  // namespace

// One call of the attack.
class PgdAttack::Run {
 public:
  Run(const PgdAttack& attack, Classifier& model, const at::Tensor& clean, const at::Tensor& labels,
      const AttackContext& context)
      : threat_model_(attack.threat_model_),
        options_(attack.options_),
        model_(model),
        clean_(clean),
        context_(context),
        objective_(model, clean, labels, context, attack.options_.target),
        watch_(clean) {}

  at::Tensor perturb() {
    at::Tensor adversarial;
    const bool compares = options_.keep_best || options_.restarts > 1;
    for (int restart = 0; restart < options_.restarts && !(restart > 0 && stopped()); ++restart) {
      adversarial = climb(restart);
      if (compares) {
        const at::NoGradGuard no_grad;
        best_.offer(adversarial, objective_.per_sample(model_.forward(adversarial)));
      }
    }
    if (context_.gradient_counts != nullptr) {
      *context_.gradient_counts = watch_.counts();
    }
    return compares ? best_.images() : adversarial.detach();
  }

 private:
  [[nodiscard]] bool stopped() const {
    return context_.stop_requested && context_.stop_requested();
  }

  at::Tensor climb(int restart) {
    at::Tensor adversarial = start(restart);
    for (int step = 0; step < options_.steps && !stopped(); ++step) {
      adversarial.requires_grad_(true);
      const at::Tensor losses = objective_.per_sample(model_.forward(adversarial));
      const at::Tensor gradient = torch::autograd::grad({losses.sum()}, {adversarial}).front();
      const at::NoGradGuard no_grad;
      adversarial = adversarial.detach();
      if (options_.keep_best) {
        best_.offer(adversarial, losses);
      }
      if (context_.gradient_counts != nullptr && clean_.size(0) > 0) {
        watch_.add(gradient);
      }
      adversarial = move(adversarial, gradient.nan_to_num(0, 0, 0), step);
    }
    return adversarial;
  }

  [[nodiscard]] at::Tensor move(const at::Tensor& images, const at::Tensor& gradient,
                                int step) const {
    at::Tensor direction = ascent_direction(gradient, threat_model_.norm);
    if (threat_model_.norm == Norm::kLinf || !options_.trades_l2_steps) {
      return project(images.add(direction, options_.step_size), clean_, threat_model_);
    }
    const at::Tensor still = perturbation_norm(gradient, Norm::kL2).eq(0).view({-1, 1, 1, 1});
    direction = at::where(still, draw_normal(kZeroGradientLayer, step), direction);
    return project(images.add(direction, options_.step_size).clamp_(0, 1), clean_, threat_model_);
  }

  [[nodiscard]] at::Tensor start(int restart) const {
    at::Tensor noise = restart == 0 ? context_.start_noise : at::Tensor();
    if (!noise.defined()) {
      noise = draw_start(restart);
    }
    const at::Tensor images = noise.defined() ? clean_ + noise : clean_.clone();
    return options_.random_start == RandomStart::kUniform ? images.clamp(0, 1) : images;
  }

  // Undefined for no random start.
  [[nodiscard]] at::Tensor draw_start(int restart) const {
    const double epsilon = threat_model_.epsilon;
    if (options_.random_start == RandomStart::kNone) {
      return {};
    }
    if (options_.random_start == RandomStart::kNormal) {
      return draw_normal(0, restart) * options_.start_scale;
    }
    if (threat_model_.norm == Norm::kLinf) {
      return (draw_uniform(0, restart, clean_.sizes().slice(1)) * 2 - 1) * epsilon;
    }
    const at::Tensor direction = ascent_direction(draw_normal(0, restart), Norm::kL2);
    return direction * draw_uniform(kRadiusLayer, restart, {1, 1, 1}) * epsilon;
  }

  [[nodiscard]] RandomStream stream(std::uint8_t layer, int step) const {
    return {.seed = context_.seed,
            .purpose = context_.purpose,
            .layer = layer,
            .step = static_cast<std::uint16_t>(step),
            .index = context_.index};
  }
  [[nodiscard]] at::Tensor draw_normal(std::uint8_t layer, int step) const {
    return normal_tensor(stream(layer, step), context_.samples, clean_.sizes().slice(1),
                         clean_.options());
  }
  [[nodiscard]] at::Tensor draw_uniform(std::uint8_t layer, int step, at::IntArrayRef shape) const {
    return uniform_tensor(stream(layer, step), context_.samples, shape, clean_.options());
  }

  const ThreatModel& threat_model_;
  const PgdOptions& options_;
  Classifier& model_;
  const at::Tensor& clean_;
  const AttackContext& context_;
  Objective objective_;
  GradientWatch watch_;
  BestSoFar best_;
};

at::Tensor PgdAttack::perturb(Classifier& model, const at::Tensor& images, const at::Tensor& labels,
                              const AttackContext& context) const {
  require(!images.is_inference(),
          "an attack needs images that autograd may record, not inference tensors");
  const AttackStateGuard state(model, context.statistics);
  const at::AutoGradMode recording(true);
  const at::Tensor clean = images.detach();
  return Run(*this, model, clean, labels, context).perturb();
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
