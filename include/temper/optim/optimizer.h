#pragma once
// Optimizers on ATen's fused kernels. A step holds no host-device synchronisation: whether it takes
// effect is decided by a flag on the device.

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "temper/core/state_dict.h"

namespace temper {

struct NamedParameter {
  std::string name{};
  at::Tensor tensor{};
  bool decays = true;  // whether weight decay applies
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates the parameters from their .grad with the given learning rate. `skip`: float32 scalar on
  // the parameters' device; not zero leaves parameters and state as they are. Parameters without a
  // gradient are left out.
  virtual void step(double learning_rate, const at::Tensor& skip) = 0;

  // State by "<kind>/<parameter name>", the tensors themselves.
  [[nodiscard]] virtual StateDict state() const = 0;
  // Copies state into place. Throws ConfigError when a name is missing, unknown or has another
  // shape.
  void load_state(const StateDict& state);
};

// v = momentum v + (g + weight_decay w); w -= learning_rate v (Nesterov: g + momentum v), as
// PyTorch's SGD with dampening 0.
struct SgdOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
};
[[nodiscard]] std::unique_ptr<Optimizer> make_sgd(std::vector<NamedParameter> parameters,
                                                  const SgdOptions& options);

// Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), as PyTorch's AdamW.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};
[[nodiscard]] std::unique_ptr<Optimizer> make_adamw(std::vector<NamedParameter> parameters,
                                                    const AdamWOptions& options);

}  // namespace temper
