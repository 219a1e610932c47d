#pragma once
// Named weights, from any file that holds them.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "temper/checkpoint/value.h"

namespace temper {

// Parameters and buffers by name, in the order of the file or the module.
using StateDict = std::vector<std::pair<std::string, at::Tensor>>;

// The weights of a Temper checkpoint (`model`, or `average` on request) or of a PyTorch file:
// a plain dict of tensors, or one under "state_dict" or "model". A "module." that all names begin
// with, left by a Python wrapper for several devices, is taken off. Tensors are on the CPU. Throws
// DataError with file and reason.
enum class WeightSet { kModel, kAverage };
[[nodiscard]] StateDict read_state_dict(const std::filesystem::path& path,
                                        WeightSet weights = WeightSet::kModel);

// Between a checkpoint's dict and named tensors; DataError when an entry is not a tensor.
[[nodiscard]] StateDict to_state_dict(const ValueDict& dict);
[[nodiscard]] ValueDict to_dict(const StateDict& state);

}  // namespace temper
