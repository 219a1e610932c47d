#pragma once
// The interface of all models: images in [0, 1] in, logits out. Normalisation of the input is the
// first layer, so attacks and threat models work in pixel units.

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "temper/models/batch_norm.h"
#include "temper/models/dropout.h"
#include "temper/models/statistics_mode.h"

namespace temper {

// Per-channel mean and standard deviation in pixel units of [0, 1]; empty: no normalisation. Not
// part of a state dict.
struct Normalization {
  std::vector<double> mean{};
  std::vector<double> std{};
};

class Classifier : public torch::nn::Module {
 public:
  explicit Classifier(Normalization normalization);

  // `images`: float [N, C, H, W] in [0, 1], N may be 0. Returns logits [N, classes]. Differentiable
  // with respect to the images. Uses the statistics mode that is set; not thread-safe.
  at::Tensor forward(const at::Tensor& images);

  // Sets the mode of all batch-norm and dropout layers.
  void set_statistics_mode(StatisticsMode mode);
  // The random numbers of the forwards from now on; each forward gets other ones. Needed by models
  // with dropout in modes other than kRunning.
  void set_random_keys(const RandomKeys& keys);
  // Makes all batch-norm layers synchronised (or local again, with null).
  void synchronize_batch_norm(const std::shared_ptr<const RankReduction>& reduction);

  // The layers whose mode is set; found once, at the first call.
  [[nodiscard]] const std::vector<BatchNorm*>& batch_norms();
  [[nodiscard]] const std::vector<Dropout*>& dropouts();

  [[nodiscard]] const Normalization& normalization() const { return normalization_; }

 protected:
  // `normalized`: [N, C, H, W].
  virtual at::Tensor logits(const at::Tensor& normalized) = 0;

 private:
  Normalization normalization_;
  at::Tensor shift_;  // [C, 1, 1], on the device and in the type of the last images
  at::Tensor scale_;
  std::vector<BatchNorm*> batch_norms_;
  std::vector<Dropout*> dropouts_;
  bool searched_ = false;
  RandomKeys random_keys_{};
  std::uint16_t forwards_ = 0;  // since the keys were set

  void search_layers();
  at::Tensor normalize(const at::Tensor& images);
};

// Sets a mode for a scope; restores each layer's own mode, also on an exception.
class StatisticsModeGuard {
 public:
  StatisticsModeGuard(Classifier& model, StatisticsMode mode);
  ~StatisticsModeGuard();
  StatisticsModeGuard(const StatisticsModeGuard&) = delete;
  StatisticsModeGuard& operator=(const StatisticsModeGuard&) = delete;

 private:
  Classifier& model_;
  std::vector<StatisticsMode> saved_;  // of the batch-norm layers, then of the dropout layers
};

// Statistics mode of an attack, and no gradients for parameters: forwards in the scope keep no
// activations for them. Restores each parameter's own requires_grad and each layer's mode, also on
// an exception.
class AttackStateGuard {
 public:
  AttackStateGuard(Classifier& model, StatisticsMode mode);
  ~AttackStateGuard();
  AttackStateGuard(const AttackStateGuard&) = delete;
  AttackStateGuard& operator=(const AttackStateGuard&) = delete;

 private:
  StatisticsModeGuard mode_;
  std::vector<at::Tensor> frozen_;
};

}  // namespace temper
