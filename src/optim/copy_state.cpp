#include "optim/copy_state.h"

#include <ATen/core/grad_mode.h>

#include <unordered_map>

#include "temper/core/error.h"

namespace temper {

void copy_state(const StateDict& own, const StateDict& saved, std::string_view what) {
  if (own.size() != saved.size()) {
    throw ConfigError(concat("the ", what, " holds ", saved.size(), " tensors, this run has ",
                             own.size(), ": it was saved with another optimizer or model"));
  }
  std::unordered_map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : saved) {
    by_name.emplace(name, &tensor);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second->sizes() != tensor.sizes()) {
      throw ConfigError(concat(
          "the ", what, found == by_name.end() ? " lacks " : " has another shape for ", name));
    }
    at::Tensor target = tensor;
    target.copy_(*found->second);
  }
}

}  // namespace temper
