#pragma once
// One rank's part of a batch.

#include <ATen/core/Tensor.h>

namespace temper {

// On the model's device; it may be empty.
struct ImageBatch {
  at::Tensor images{};   // [N, C, H, W] in [0, 1]
  at::Tensor labels{};   // int64 [N]; -1: none
  at::Tensor samples{};  // int64 [N] on the CPU, indices in the data set: keys of random numbers
  // Class probabilities [N, classes] in the images' type where samples are mixed, else undefined.
  at::Tensor targets{};

  // What a cross entropy compares with.
  [[nodiscard]] const at::Tensor& loss_targets() const {
    return targets.defined() ? targets : labels;
  }
};

}  // namespace temper
