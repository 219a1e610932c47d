#include "temper/attacks/pgd.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attacks/ascent.h"
#include "attacks/objective.h"
#include "temper/core/random_tensor.h"

namespace temper {
namespace {

constexpr std::uint8_t kRadiusLayer = 1;
constexpr std::uint8_t kZeroGradientLayer = 3;

}  // namespace

// One call of the attack.
class PgdAttack::Run {
 public:
  Run(const PgdAttack& attack, Classifier& model, const at::Tensor& clean, const at::Tensor& labels,
      const AttackContext& context)
      : threat_model_{attack.threat_model_.norm,
                      attack.threat_model_.epsilon * context.epsilon_scale},
        options_(attack.options_),
        steps_(attack.options_.steps * context.steps_factor),
        step_size_(attack.options_.step_size * context.epsilon_scale / context.steps_factor),
        model_(model),
        clean_(clean),
        context_(context),
        objective_(model, clean, labels, context, attack.options_.target),
        watch_(context, clean) {}

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
    watch_.report();
    return compares ? best_.images() : adversarial.detach();
  }

 private:
  [[nodiscard]] bool stopped() const {
    return context_.stop_requested && context_.stop_requested();
  }

  at::Tensor climb(int restart) {
    at::Tensor adversarial = start(restart);
    for (int step = 0; step < steps_ && !stopped(); ++step) {
      adversarial.requires_grad_(true);
      const at::Tensor losses = objective_.per_sample(model_.forward(adversarial));
      const at::Tensor gradient = torch::autograd::grad({losses.sum()}, {adversarial}).front();
      const at::NoGradGuard no_grad;
      adversarial = adversarial.detach();
      if (options_.keep_best && (step > 0 || start_is_inside())) {
        best_.offer(adversarial, losses);
      }
      watch_.add(gradient);
      adversarial = move(adversarial, gradient.nan_to_num(0, 0, 0), step);
    }
    return adversarial;
  }

  // A normal start is neither clamped nor projected, and a wide one leaves the ball.
  [[nodiscard]] bool start_is_inside() const {
    return options_.random_start == RandomStart::kNone ||
           (options_.random_start == RandomStart::kUniform && options_.start_radius <= 1);
  }

  [[nodiscard]] at::Tensor move(const at::Tensor& images, const at::Tensor& gradient,
                                int step) const {
    if (threat_model_.norm == Norm::kL2 && options_.trades_l2_steps) {
      const at::Tensor moved = images.add(trades_l2_direction(gradient, step), step_size_);
      return project(moved.clamp_(0, 1), clean_, threat_model_);
    }
    const at::Tensor useful =
        threat_model_.norm == Norm::kL1 ? movable_part(gradient, images) : gradient;
    const at::Tensor moved = images.add(ascent_direction(useful, threat_model_.norm), step_size_);
    return options_.projects ? project(moved, clean_, threat_model_) : moved.clamp(0, 1);
  }

  [[nodiscard]] at::Tensor trades_l2_direction(const at::Tensor& gradient, int step) const {
    const at::Tensor length = over_images(perturbation_norm(gradient, Norm::kL2));
    return at::where(length.eq(0), draw_normal(kZeroGradientLayer, step), gradient / length);
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
    const double radius = threat_model_.epsilon * options_.start_radius;
    if (options_.random_start == RandomStart::kNone) {
      return {};
    }
    if (options_.random_start == RandomStart::kNormal) {
      return draw_normal(0, restart) * options_.start_scale;
    }
    if (threat_model_.norm == Norm::kLinf) {
      return (draw_uniform(0, restart, clean_.sizes().slice(1)) * 2 - 1) * radius;
    }
    return draw_direction(restart) * draw_uniform(kRadiusLayer, restart, {1, 1, 1}) * radius;
  }

  // Of length one, uniform on the sphere; l1: Laplace noise, scaled.
  [[nodiscard]] at::Tensor draw_direction(int restart) const {
    if (threat_model_.norm == Norm::kL2) {
      return ascent_direction(draw_normal(0, restart), Norm::kL2);
    }
    const at::Tensor uniform = draw_uniform(0, restart, clean_.sizes().slice(1)) - 0.5;
    const at::Tensor laplace = uniform.sign() * -at::log1p(-2 * uniform.abs());
    return laplace / over_images(perturbation_norm(laplace, Norm::kL1));
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

  ThreatModel threat_model_;
  const PgdOptions& options_;
  int steps_;
  double step_size_;
  Classifier& model_;
  const at::Tensor& clean_;
  const AttackContext& context_;
  Objective objective_;
  GradientWatch watch_;
  BestSoFar best_;
};

at::Tensor PgdAttack::perturb(Classifier& model, const at::Tensor& images, const at::Tensor& labels,
                              const AttackContext& context) const {
  return run_attack<Run>(*this, model, images, labels, context);
}

PgdAttack fgsm_attack(const ThreatModel& threat_model) {
  return PgdAttack(
      threat_model,
      {.steps = 1, .step_size = threat_model.epsilon, .random_start = RandomStart::kNone});
}

}  // namespace temper
