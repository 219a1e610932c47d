#pragma once
// Between a module and named tensors.

#include <torch/nn/module.h>

#include <string>
#include <string_view>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/state_dict.h"

namespace temper {

// Parameters and buffers by name in the order of Python's state_dict: module by module, parameters
// first. The tensors themselves, not copies.
[[nodiscard]] StateDict state_dict(const torch::nn::Module& module);

// Whether `name` is `part` or lies in it: "fc" holds fc and fc.weight, not fc2.weight.
[[nodiscard]] bool is_within(std::string_view name, std::string_view part);

class StateMismatch : public ConfigError {
 public:
  StateMismatch(const std::string& what, std::vector<std::string> resized)
      : ConfigError(what), resized_(std::move(resized)) {}
  // The tensors that differ, if they do so in their first size alone, as a last layer does with
  // another number of classes; else empty.
  [[nodiscard]] const std::vector<std::string>& resized() const { return resized_; }

 private:
  std::vector<std::string> resized_;
};

struct LoadedState {
  std::size_t taken = 0;               // tensors that were copied
  std::size_t total = 0;               // tensors of the module
  std::vector<std::string> ignored{};  // of the module, which stay as they were
};

// Copies every tensor of `state` into the module, converted to its type. Names of `state` and of
// the module that lie in a part of `ignored` are left out. Strict for the rest: throws
// StateMismatch with counts and names when a name is missing or unexpected, a shape differs or an
// integer stands for a floating-point number, before anything is changed. A missing
// num_batches_tracked of batch norm is no error, as files of old PyTorch versions have none.
// `source` names the file.
LoadedState load_state_dict(torch::nn::Module& module, const StateDict& state,
                            const std::string& source,
                            const std::vector<std::string>& ignored = {});

}  // namespace temper
