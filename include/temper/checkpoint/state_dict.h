#pragma once
// Named weights, from any file that holds them.

#include <filesystem>

#include "temper/checkpoint/value.h"
#include "temper/core/state_dict.h"

namespace temper {

enum class WeightSet { kModel, kAverage };

// The weights of a Temper checkpoint (`model`, or `average` on request), of a PyTorch file or of a
// safetensors file; which one it is shows in its content, not in its name. A PyTorch file holds a
// dict of tensors at the top, or under "state_dict", "model" or "model_state_dict", or under one of
// them in another. "module." and "_orig_mod." that all names begin with, left by Python's wrappers
// for several devices and for compilation, are taken off. Tensors are on the CPU. Throws DataError
// with file and reason, SystemError for a missing file.
[[nodiscard]] StateDict read_state_dict(const std::filesystem::path& path,
                                        WeightSet weights = WeightSet::kModel);

struct WeightFile {
  StateDict weights;
  // Of a Temper checkpoint, else empty.
  std::string config{};
  std::string validation_fingerprint{};  // of its validation data
  bool has_average = false;
};
// As read_state_dict.
[[nodiscard]] WeightFile read_weight_file(const std::filesystem::path& path,
                                          WeightSet weights = WeightSet::kModel);

// Between a checkpoint's dict and named tensors; DataError when an entry is not a tensor.
[[nodiscard]] StateDict to_state_dict(const ValueDict& dict);
[[nodiscard]] ValueDict to_dict(const StateDict& state);

}  // namespace temper
