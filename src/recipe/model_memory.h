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

  [[nodiscard]] std::int64_t total() const { return parameters + buffers + gradients + optimizer; }
};

// Without activations. Builds the model once on the CPU. Throws ConfigError as build_architecture.
[[nodiscard]] ModelMemory model_memory(const Config& config, const Catalogs& catalogs);

}  // namespace temper
