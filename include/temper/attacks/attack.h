#pragma once
// The interface of all attacks (inner maximisation).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "temper/core/random.h"
#include "temper/models/classifier.h"

namespace temper {

// What the attack ascends on, summed over samples.
enum class InnerLoss {
  kCrossEntropy,  // with the labels
  kKlDivergence,  // KL(p(clean) || p(adversarial)), as in TRADES (Zhang et al., 2019, eq. 4)
};

// Samples of a batch whose gradient with respect to the image was all zero, or not finite, in at
// least one step: int64 scalars on the images' device. Many zeros hint at gradient masking or a
// dead network.
struct GradientCounts {
  at::Tensor zero{};
  at::Tensor nonfinite{};
};

struct AttackContext {
  InnerLoss loss = InnerLoss::kCrossEntropy;
  // The model's batch-norm mode during the attack. kRunning issues no collective.
  StatisticsMode statistics = StatisticsMode::kRunning;
  // Indices in the data set, int64 [N] on the CPU: keys of the random numbers.
  at::Tensor samples{};
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kAttackStart;
  std::uint32_t index = 0;  // update or epoch: other numbers for each
  // Optional perturbation to start from, [N, C, H, W] in the images' type; replaces the random
  // start.
  at::Tensor start_noise{};
  // Scales epsilon, step size and radius of a uniform start, for a threat model that grows during
  // training.
  double epsilon_scale = 1;
  // This many steps for each one, each so much shorter.
  int steps_factor = 1;
  // Optional; true ends the attack after the current step. A rank that stops early still joins
  // later collectives.
  std::function<bool()> stop_requested{};
  // Optional; set by the attack. A gradient that is not finite moves nothing, so the images stay
  // finite.
  GradientCounts* gradient_counts = nullptr;
};

class Attack {
 public:
  virtual ~Attack() = default;

  // `images`: [N, C, H, W] in [0, 1] on the model's device, N may be 0; `labels`: int64 [N], or
  // probabilities [N, classes] for an untargeted cross entropy.
  // Returns detached images inside the threat model. Works in any grad mode and runs on the bare
  // module: parameters get no gradient, and flags, modes and (unless the mode is kUpdate) buffers
  // are as before, also after an exception.
  [[nodiscard]] virtual at::Tensor perturb(Classifier& model, const at::Tensor& images,
                                           const at::Tensor& labels,
                                           const AttackContext& context) const = 0;
};

}  // namespace temper
