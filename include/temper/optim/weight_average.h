#pragma once
// An exponential moving average of a model's weights (Polyak and Juditsky, 1992; for robust
// training Gowal et al., "Uncovering the limits of adversarial training", 2020, section 4.3).

#include <ATen/core/Tensor.h>

#include <vector>

#include "temper/core/state_dict.h"

namespace temper {

struct WeightAverageOptions {
  double decay = 0.999;  // kept part of an update
  bool warmup = true;    // min(decay, (1 + t) / (10 + t)) after t updates
};

// Averages parameters and floating-point buffers; other buffers are copied. The averages are
// tensors of their own, never views of the model's.
class WeightAverage {
 public:
  // Two lists of the same names, shapes and types: the model's tensors, and those that hold the
  // average, which start as copies of the former.
  WeightAverage(const StateDict& source, StateDict average, const WeightAverageOptions& options);

  // After each update, its batch-norm statistics included. `skip`: float32 scalar on the device,
  // not zero leaves the average as it is. Without a host-device synchronisation.
  void update(const at::Tensor& skip);

  [[nodiscard]] const StateDict& tensors() const { return average_; }
  // Updates that went into the average; synchronises.
  [[nodiscard]] double updates() const;
  // Takes up a saved average. Throws ConfigError when a name is missing, unknown or has another
  // shape.
  void load(const StateDict& average, double updates);

 private:
  StateDict average_;
  WeightAverageOptions options_;
  std::vector<at::Tensor> source_floats_;
  std::vector<at::Tensor> average_floats_;
  std::vector<at::Tensor> source_others_;
  std::vector<at::Tensor> average_others_;
  at::Tensor updates_;  // float64 scalar on the device
};

}  // namespace temper
