#pragma once
// Free adversarial training: Shafahi et al., "Adversarial training for free!" (2019), algorithm 1.

#include <map>
#include <vector>

#include "temper/methods/method_options.h"
#include "temper/methods/standard_training.h"
#include "temper/methods/training_method.h"

namespace temper {

// Each batch is trained on `replays` times. One backward pass gives the gradients of the weights
// and of the noise, which is carried on from replay to replay and from batch to batch: row i
// belongs to place i of a micro-batch, whatever its image. It starts at zero.
class FreeTraining final : public TrainingMethod {
 public:
  explicit FreeTraining(const MethodOptions& options);
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override;
  // The noise stays as it was where the update is skipped.
  void after_update(Classifier& model, const at::Tensor& skip) override;
  [[nodiscard]] int updates_per_batch() const override { return options_.free.replays; }
  // noise/0, noise/1, ... of the micro-batches, [N, C, H, W] in the order of their samples.
  [[nodiscard]] StateDict state(const RankReduction& ranks) const override;
  void load_state(const StateDict& state) override;

 private:
  // Of one micro-batch, this rank's rows.
  struct Noise {
    at::Tensor current{};
    at::Tensor next{};  // undefined unless an update is under way
  };

  at::Tensor& noise_of(const StepContext& context, const at::Tensor& images);
  [[nodiscard]] at::Tensor moved(const at::Tensor& noise, const at::Tensor& gradient,
                                 const at::Tensor& images, double epsilon_scale) const;

  MethodOptions options_;
  StandardTraining before_start_;
  std::map<std::size_t, Noise> noise_;
  std::map<std::size_t, at::Tensor> loaded_;  // of all ranks, not taken up yet
};

}  // namespace temper
