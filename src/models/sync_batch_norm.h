#pragma once
// The autograd function behind synchronised batch norm.

#include <ATen/core/Tensor.h>

#include <memory>

#include "temper/models/batch_norm.h"

namespace temper {

struct SyncBatchNormOptions {
  std::shared_ptr<const RankReduction> reduction;
  double eps;
  double momentum;
  // Undefined: the statistics are not recorded. Updated in place otherwise, in the way of running
  // statistics.
  at::Tensor running_mean;
  at::Tensor running_var;
};

// Normalises with mean and variance over all ranks' samples. Gradients of weight and bias are this
// rank's sums.
at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, const SyncBatchNormOptions& options);

}  // namespace temper
