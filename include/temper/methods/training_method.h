#pragma once
// The interface of training methods: the outer loss and its gradients for one micro-batch.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "temper/attacks/attack.h"
#include "temper/models/classifier.h"
#include "temper/models/image_batch.h"

namespace temper {

// What the trainer lends to a method for one micro-batch.
struct StepContext {
  Classifier& model;
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t update = 0;
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

  // State that is carried from update to update, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string, at::Tensor>> state() const { return {}; }
  virtual void load_state(const std::vector<std::pair<std::string, at::Tensor>>& /*state*/) {}
};

}  // namespace temper
