#pragma once
// Projected gradient descent (Madry et al., "Towards deep learning models resistant to adversarial
// attacks", 2018) and its one-step form FGSM (Goodfellow et al., "Explaining and harnessing
// adversarial examples", 2015).

#include <string>

#include "temper/attacks/attack.h"
#include "temper/attacks/threat_model.h"
#include "temper/core/catalog.h"

namespace temper {

enum class RandomStart {
  kNone,
  kUniform,  // linf: uniform in the ball's cube; l2: random direction, radius uniform in [0,
             // epsilon]; clipped to [0, 1]
  kNormal,   // start_scale times standard normal noise, not clipped, as the official TRADES code
             // does
};

struct PgdOptions {
  int steps = 10;
  double step_size = 2.0 / 255;  // pixel units of [0, 1]
  RandomStart random_start = RandomStart::kUniform;
  double start_scale = 0.001;  // of kNormal
};

// Each step moves along the ascent direction, projects onto the ball, then clips to [0, 1].
class PgdAttack final : public Attack {
 public:
  PgdAttack(const ThreatModel& threat_model, const PgdOptions& options)
      : threat_model_(threat_model), options_(options) {}

  [[nodiscard]] at::Tensor perturb(Classifier& model, const at::Tensor& images,
                                   const at::Tensor& labels,
                                   const AttackContext& context) const override;

 private:
  [[nodiscard]] at::Tensor start(const at::Tensor& clean, const AttackContext& context) const;

  ThreatModel threat_model_;
  PgdOptions options_;
};

// One step of size epsilon from the clean image.
[[nodiscard]] PgdAttack fgsm_attack(const ThreatModel& threat_model);

// The attacks that a configuration can name: fgsm, pgd. FGSM ignores the options.
[[nodiscard]] Catalog<Attack, ThreatModel, PgdOptions> built_in_attacks();

}  // namespace temper
