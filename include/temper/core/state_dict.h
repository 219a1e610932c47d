#pragma once
// Tensors by name, in the order of the module or file that they come from.

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace temper {

using StateDict = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace temper
