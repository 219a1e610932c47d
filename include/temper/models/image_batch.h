#pragma once
// One rank's part of a batch.

#include <ATen/core/Tensor.h>

namespace temper {

// On the model's device; it may be empty.
struct ImageBatch {
  at::Tensor images{};   // [N, C, H, W] in [0, 1]
  at::Tensor labels{};   // int64 [N]
  at::Tensor samples{};  // int64 [N] on the CPU, indices in the data set: keys of random numbers
};

}  // namespace temper
