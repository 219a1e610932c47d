#pragma once
// Projected gradient descent (Madry et al., "Towards deep learning models resistant to adversarial
// attacks", 2018) and its one-step form FGSM (Goodfellow et al., "Explaining and harnessing
// adversarial examples", 2015).

#include "temper/attacks/attack.h"
#include "temper/attacks/threat_model.h"

namespace temper {

enum class RandomStart {
  kNone,
  kUniform,  // linf: uniform in the ball's cube; l2, l1: random direction, radius uniform in [0,
             // epsilon]; clipped to [0, 1]
  kNormal,   // start_scale times standard normal noise, not clipped, as the official TRADES code
             // does
};

// What the attack wants the network to say instead of the label.
enum class AttackTarget {
  kNone,         // anything else: ascends on the loss
  kRandom,       // another class, drawn per sample: descends on the cross entropy with it
  kLeastLikely,  // the class with the smallest clean logit (Kurakin et al., "Adversarial machine
                 // learning at scale", 2017)
};

struct PgdOptions {
  int steps = 10;
  double step_size = 2.0 / 255;  // pixel units of [0, 1]
  RandomStart random_start = RandomStart::kUniform;
  double start_scale = 0.001;  // of kNormal
  double start_radius = 1;     // of kUniform, in epsilons
  // Runs from new random starts; each sample keeps the result with the largest loss.
  int restarts = 1;
  // Per sample the iterate with the largest loss instead of the last one, the start included where
  // it lies in the ball;
  // costs one forward more.
  bool keep_best = false;
  AttackTarget target = AttackTarget::kNone;
  // False leaves out the projection onto the ball, as N-FGSM does; images stay in [0, 1].
  bool projects = true;
  // l2 steps as in the official TRADES code: clipped to [0, 1] before the projection onto the ball,
  // and standard normal noise in place of a zero gradient's direction.
  bool trades_l2_steps = false;
};

// Each step moves along the ascent direction, projects onto the ball, then clips to [0, 1]. An l1
// step leaves out the pixels that the box holds back.
class PgdAttack final : public Attack {
 public:
  PgdAttack(const ThreatModel& threat_model, const PgdOptions& options)
      : threat_model_(threat_model), options_(options) {}

  // With a target the context's loss must be the cross entropy.
  [[nodiscard]] at::Tensor perturb(Classifier& model, const at::Tensor& images,
                                   const at::Tensor& labels,
                                   const AttackContext& context) const override;

 private:
  class Run;

  ThreatModel threat_model_;
  PgdOptions options_;
};

// One step of size epsilon from the clean image.
[[nodiscard]] PgdAttack fgsm_attack(const ThreatModel& threat_model);

}  // namespace temper
