#include "temper/attacks/apgd.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "attacks/ascent.h"
#include "attacks/objective.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper {
namespace {

constexpr double kMomentum = 0.25;      // 1 - a of the paper
constexpr double kFewIncreases = 0.75;  // rho

}  // namespace

std::vector<int> apgd_checkpoints(int steps) {
  const auto part = [steps](double fraction) { return static_cast<int>(fraction * steps); };
  int interval = std::max(part(0.22), 1);
  std::vector<int> checkpoints;
  for (int next = interval; next <= steps; next += interval) {
    checkpoints.push_back(next);
    interval = std::max(interval - std::max(part(0.03), 1), std::max(part(0.06), 1));
  }
  return checkpoints;
}

// One call of the attack.
class ApgdAttack::Run {
 public:
  Run(const ApgdAttack& attack, Classifier& model, const at::Tensor& clean,
      const at::Tensor& labels, const AttackContext& context)
      : threat_model_{attack.threat_model_.norm,
                      attack.threat_model_.epsilon * context.epsilon_scale},
        options_(attack.options_),
        steps_(attack.options_.steps * context.steps_factor),
        model_(model),
        clean_(clean),
        context_(context),
        objective_(model, clean, labels, context, AttackTarget::kNone),
        watch_(context, clean) {}

  at::Tensor perturb() {
    images_ = start();
    evaluate(/*needs_gradient=*/steps_ > 0);
    step_size_ = at::full({clean_.size(0), 1, 1, 1}, 2 * threat_model_.epsilon, clean_.options());
    loss_table_ = at::zeros({std::max(steps_, 1), clean_.size(0)}, losses_.options());
    best_at_last_check_ = best_.losses();
    reduced_at_last_check_ = at::ones_like(losses_, losses_.options().dtype(at::kBool));
    const std::vector<int> checkpoints = apgd_checkpoints(steps_);
    int since_check = 0;
    for (int step = 0; step < steps_; ++step) {
      if (context_.stop_requested && context_.stop_requested()) {
        break;
      }
      move(step == 0 ? 0 : kMomentum);
      const bool last = step + 1 == steps_;
      evaluate(!last);
      loss_table_[step].copy_(losses_);
      ++since_check;
      if (!last && std::ranges::count(checkpoints, step + 1) > 0) {
        check(step, since_check);
        since_check = 0;
      }
    }
    watch_.report();
    return best_.images();
  }

 private:
  // Losses of the images, and their gradient where there is a further step.
  void evaluate(bool needs_gradient) {
    images_.requires_grad_(needs_gradient);
    const at::Tensor losses = objective_.per_sample(model_.forward(images_));
    if (needs_gradient) {
      gradient_ = torch::autograd::grad({losses.sum()}, {images_}).front();
      watch_.add(gradient_);
      gradient_ = gradient_.nan_to_num(0, 0, 0);
    }
    images_ = images_.detach();
    losses_ = losses.detach();
    const at::Tensor better = best_.offer(images_, losses_);
    best_gradient_ = best_gradient_.defined()
                         ? at::where(over_images(better), gradient_, best_gradient_)
                         : gradient_;
  }

  void move(double momentum) {
    const at::Tensor stepped =
        project(images_ + step_size_ * ascent_direction(gradient_, threat_model_.norm), clean_,
                threat_model_);
    at::Tensor next = images_ + (1 - momentum) * (stepped - images_);
    if (momentum > 0) {
      next.add_(images_ - previous_, momentum);
    }
    previous_ = images_;
    images_ = project(next, clean_, threat_model_);
  }

  // Halves the step size where the loss rose too seldom in the last `interval` steps, or where it
  // was not halved before and the best loss stays, and goes on from the best images there.
  void check(int step, int interval) {
    at::Tensor increases = at::zeros_like(losses_);
    for (int i = 0; i < interval; ++i) {
      // As in the official code, the first step is compared with a row that is still zero.
      const int before = step - i == 0 ? steps_ - 1 : step - i - 1;
      increases += loss_table_[step - i].gt(loss_table_[before]);
    }
    const at::Tensor seldom = increases.le(kFewIncreases * interval);
    const at::Tensor stays =
        reduced_at_last_check_.logical_not().logical_and(best_at_last_check_.ge(best_.losses()));
    const at::Tensor reduces = seldom.logical_or(stays);
    reduced_at_last_check_ = reduces;
    best_at_last_check_ = best_.losses();
    const at::Tensor mask = over_images(reduces);
    step_size_ = at::where(mask, step_size_ / 2, step_size_);
    images_ = at::where(mask, best_.images(), images_);
    gradient_ = at::where(mask, best_gradient_, gradient_);
  }

  [[nodiscard]] at::Tensor start() const {
    at::Tensor noise = context_.start_noise;
    if (!noise.defined() && options_.random_start) {
      noise = draw_start();
    }
    return noise.defined() ? (clean_ + noise).clamp(0, 1) : clean_.clone();
  }

  [[nodiscard]] at::Tensor draw_start() const {
    const RandomStream stream{
        .seed = context_.seed, .purpose = context_.purpose, .index = context_.index};
    const at::IntArrayRef shape = clean_.sizes().slice(1);
    const bool linf = threat_model_.norm == Norm::kLinf;
    const at::Tensor noise =
        linf ? uniform_tensor(stream, context_.samples, shape, clean_.options()) * 2 - 1
             : normal_tensor(stream, context_.samples, shape, clean_.options());
    return clean_.size(0) == 0 ? noise
                               : threat_model_.epsilon * noise /
                                     over_images(perturbation_norm(noise, threat_model_.norm));
  }

  ThreatModel threat_model_;
  const ApgdOptions& options_;
  int steps_;
  Classifier& model_;
  const at::Tensor& clean_;
  const AttackContext& context_;
  Objective objective_;
  GradientWatch watch_;
  BestSoFar best_;
  at::Tensor images_;
  at::Tensor previous_;
  at::Tensor losses_;
  at::Tensor gradient_;
  at::Tensor best_gradient_;
  at::Tensor step_size_;
  at::Tensor loss_table_;  // [steps, N]
  at::Tensor best_at_last_check_;
  at::Tensor reduced_at_last_check_;
};

ApgdAttack::ApgdAttack(const ThreatModel& threat_model, const ApgdOptions& options)
    : threat_model_(threat_model), options_(options) {
  require(threat_model.norm != Norm::kL1, "APGD is for linf and l2");
}

at::Tensor ApgdAttack::perturb(Classifier& model, const at::Tensor& images,
                               const at::Tensor& labels, const AttackContext& context) const {
  return run_attack<Run>(*this, model, images, labels, context);
}

}  // namespace temper
