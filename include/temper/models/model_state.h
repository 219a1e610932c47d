#pragma once
// Between a module and named tensors.

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace temper {

using StateDict = std::vector<std::pair<std::string, at::Tensor>>;

// Parameters and buffers by name in the order of Python's state_dict: module by module, parameters
// first. The tensors themselves, not copies.
[[nodiscard]] StateDict state_dict(const torch::nn::Module& module);

// Copies every tensor of `state` into the module. Strict: throws ConfigError with counts and names
// when a name is missing or unexpected or a shape differs, before anything is changed. `source`
// names the file.
void load_state_dict(torch::nn::Module& module, const StateDict& state, const std::string& source);

}  // namespace temper
