#pragma once
// Sums gradients over ranks. The model runs bare: only the one backward pass of an update is
// reduced, so attacks and further forwards are never seen.

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "temper/dist/communicator.h"

namespace temper {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Runs the last backward pass of an update from a scalar. Afterwards every .grad is the sum over
  // ranks of what all backward passes since the last zeroing added, with every parameter taking
  // part: the loss of a mean over all ranks' samples is divided by their number beforehand. A
  // collective. The bits do not depend on how many updates came before.
  virtual void backward(const at::Tensor& loss) = 0;
};

struct GradientReducerOptions {
  // Buckets are reduced while the backward pass still runs (c10d::Reducer); else all gradients
  // after it.
  bool overlap = true;
};

// Broadcasts nothing: parameters must be equal on all ranks already. With overlap gradients become
// views of the buckets, so they must be zeroed in place. Shapes that differ between ranks throw.
[[nodiscard]] std::unique_ptr<GradientReducer> make_gradient_reducer(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters, Communicator& communicator,
    const GradientReducerOptions& options);

// Gives every rank the main rank's values of parameters and buffers.
void broadcast_tensors(const std::vector<at::Tensor>& tensors, Communicator& communicator);

}  // namespace temper
