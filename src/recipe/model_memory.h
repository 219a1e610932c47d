#pragma once
// What a rank keeps for a model, from its shapes alone.

#include <cstdint>

#include "temper/recipe/build.h"

namespace temper {

struct ModelMemory {
  std::int64_t parameter_count = 0;
  std::int64_t parameters = 0;  // bytes, as all below
  std::int64_t buffers = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t average = 0;
  std::int64_t weight_perturbation = 0;  // during a step
  std::int64_t roll_back = 0;            // the state of the last check for overfitting

  [[nodiscard]] std::int64_t total() const {
    return parameters + buffers + gradients + optimizer + average + weight_perturbation + roll_back;
  }
};

// Without activations. Builds the model once on the CPU. Throws ConfigError as build_architecture.
[[nodiscard]] ModelMemory model_memory(const Config& config, const Catalogs& catalogs);

}  // namespace temper
