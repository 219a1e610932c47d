#pragma once
// The interface of training methods: the outer loss and its gradients for one micro-batch.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "temper/attacks/attack.h"
#include "temper/core/state_dict.h"
#include "temper/models/classifier.h"
#include "temper/models/image_batch.h"

namespace temper {

// What the trainer lends to a method for one micro-batch.
struct StepContext {
  Classifier& model;
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t update = 0;
  double updates_per_epoch = 1;
  std::size_t micro_batch = 0;  // its number within the update
  // How the ranks add tensors up, for gradients that are not those of the outer loss.
  RankReduction ranks = RankReduction();  // with {} g++ 12 leaves it uninitialised
  // Runs the backward pass of a loss that is summed over this rank's samples. It scales the loss so
  // that gradients become those of the mean over all ranks' samples, and arms the reduction of
  // gradients. Call it exactly once.
  std::function<void(const at::Tensor& loss_sum)> backward;
  // Names the phase that begins: "attack" or "forward_backward".
  std::function<void(std::string_view phase)> enter_phase = [](std::string_view) {};
  std::function<bool()> stop_requested{};
  // Optional start of the attack, see AttackContext; for references and tests.
  at::Tensor start_noise{};
};

// Sums over this rank's samples of one micro-batch, detached scalars on the model's device, but for
// what says otherwise. What a method does not have is undefined, on all ranks alike.
struct StepOutput {
  at::Tensor loss{};
  at::Tensor clean_loss{};
  at::Tensor robust_loss{};  // without its weight
  at::Tensor clean_correct{};
  at::Tensor adversarial_correct{};
  GradientCounts gradients{};  // of the attack
  at::Tensor predictions{};    // int64 [N], of the clean images, or else of the adversarial ones
  // For inspection; detached, undefined when the method has none.
  at::Tensor adversarial_images{};
  at::Tensor clean_logits{};
  at::Tensor adversarial_logits{};
  // Of an adversarial weight perturbation: the loss and the adversarial logits at the weights
  // before it, and its direction for each weight.
  at::Tensor proxy_loss{};
  at::Tensor proxy_adversarial_logits{};
  StateDict weight_directions{};
};

class TrainingMethod {
 public:
  virtual ~TrainingMethod() = default;

  // Adds to .grad of the model's parameters. Never averages over ranks itself and never steps the
  // optimizer. All ranks call it together, with an empty batch too: forwards may hold collectives
  // of synchronised batch norm.
  virtual StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) = 0;

  // After the optimizer's step and before batch-norm statistics are committed. `skip`: the flag
  // that the step got, on the device; not zero when it left the weights as they were. The host does
  // not know yet.
  virtual void after_update(Classifier& /*model*/, const at::Tensor& /*skip*/) {}

  // Optimizer updates made from one batch.
  [[nodiscard]] virtual int updates_per_batch() const { return 1; }

  // Whether strengthen_attack() may be called.
  [[nodiscard]] virtual bool can_strengthen_attack() const { return false; }
  // Doubles the steps of the attack, each half as long, from now on; part of the state. Returns how
  // many times its own steps it takes then.
  virtual int strengthen_attack() { return 1; }

  // State that is carried from update to update, by name, for the whole global batch in the order
  // of its samples: it does not depend on the world size. A collective.
  [[nodiscard]] virtual StateDict state(const RankReduction& /*ranks*/) const { return {}; }
  // Throws ConfigError when it is another method's.
  virtual void load_state(const StateDict& state);
};

}  // namespace temper
