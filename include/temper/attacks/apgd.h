#pragma once
// Auto-PGD (Croce and Hein, "Reliable evaluation of adversarial robustness with an ensemble of
// diverse parameter-free attacks", 2020, section 4): momentum, and a step size that is halved where
// the loss no longer grows.

#include <vector>

#include "temper/attacks/attack.h"
#include "temper/attacks/threat_model.h"

namespace temper {

struct ApgdOptions {
  int steps = 10;
  // kUniform of the official code: linf x + epsilon t / max abs t with t uniform in [-1, 1]; l2 a
  // normal direction of length epsilon. Otherwise from the image itself.
  bool random_start = false;
};

// For linf and l2. The first step has size 2 epsilon. Returns per sample the iterate with the
// largest loss, the start included. Singh et al., "Revisiting adversarial training for ImageNet:
// architectures, training and generalization across threat models" (2023), train with two steps.
class ApgdAttack final : public Attack {
 public:
  // A failed check for l1.
  ApgdAttack(const ThreatModel& threat_model, const ApgdOptions& options);

  [[nodiscard]] at::Tensor perturb(Classifier& model, const at::Tensor& images,
                                   const at::Tensor& labels,
                                   const AttackContext& context) const override;

 private:
  class Run;

  ThreatModel threat_model_;
  ApgdOptions options_;
};

// The numbers of steps after which the step size may be halved, in increasing order: the first
// interval is 0.22 of the steps, the following ones shrink by 0.03 down to 0.06.
[[nodiscard]] std::vector<int> apgd_checkpoints(int steps);

}  // namespace temper
