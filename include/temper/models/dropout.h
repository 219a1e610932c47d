#pragma once
// Dropout by keyed random numbers (Srivastava et al., "Dropout: a simple way to prevent neural
// networks from overfitting", 2014): what is dropped depends on the seed, the update, the forward,
// the layer and the sample, not on the world size, the place in the batch or a restart.

#include <torch/nn/module.h>

#include <cstdint>

#include "temper/core/random.h"
#include "temper/models/statistics_mode.h"

namespace temper {

// What the random numbers of a model's forwards depend on.
struct RandomKeys {
  std::uint64_t seed = 0;
  std::uint32_t update = 0;
  at::Tensor samples{};  // int64 [N] on the CPU, indices in the data set
};

// Active in modes kUpdate and kBatch, the identity in kRunning. Kept values are scaled by
// 1 / (1 - probability).
class Dropout final : public torch::nn::Module {
 public:
  explicit Dropout(double probability);

  // `input`: [N, ...], one row for each sample of the keys. A failed check without keys.
  at::Tensor forward(const at::Tensor& input);

  [[nodiscard]] StatisticsMode mode() const { return mode_; }
  void set_mode(StatisticsMode mode) { mode_ = mode; }

  // For the next forward. `layer`: the place among the model's dropout layers; `step`: counts the
  // forwards of a batch.
  void set_keys(const RandomKeys& keys, std::uint8_t layer, std::uint16_t step);

 private:
  double probability_;
  StatisticsMode mode_ = StatisticsMode::kUpdate;
  RandomStream stream_{};
  at::Tensor samples_;
};

}  // namespace temper
