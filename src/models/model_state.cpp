#include "temper/models/model_state.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::size_t kNamesShown = 5;

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream out;
  out << tensor.sizes();
  return out.str();
}

void add_problem(std::string& problems, const std::string& what,
                 const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  const std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  problems += concat("\n  ", names.size(), " ", what, ": ", join(shown, ", "),
                     names.size() > kNamesShown ? ", ..." : "");
}

void append(const torch::nn::Module& module, const std::string& prefix, StateDict& out) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    out.emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    out.emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& child : module.named_children()) {
    append(*child.value(), prefix + child.key() + ".", out);
  }
}

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict out;
  append(module, "", out);
  return out;
}

void load_state_dict(torch::nn::Module& module, const StateDict& state, const std::string& source) {
  std::map<std::string, at::Tensor> own;
  for (const auto& [name, tensor] : state_dict(module)) {
    own.emplace(name, tensor);
  }
  std::vector<std::string> unexpected;
  std::vector<std::string> misshapen;
  std::map<std::string, at::Tensor> given;
  for (const auto& [name, tensor] : state) {
    const auto found = own.find(name);
    if (found == own.end()) {
      unexpected.push_back(name);
    } else if (found->second.sizes() != tensor.sizes()) {
      misshapen.push_back(
          concat(name, " ", shape_text(tensor), " instead of ", shape_text(found->second)));
    } else {
      given.emplace(name, tensor);
    }
  }
  std::vector<std::string> missing;
  for (const auto& [name, tensor] : own) {
    const bool present =
        std::ranges::any_of(state, [&](const auto& item) { return item.first == name; });
    if (!present) {
      missing.push_back(name);
    }
  }
  std::string problems;
  add_problem(problems, "missing", missing);
  add_problem(problems, "unexpected", unexpected);
  add_problem(problems, "of another shape", misshapen);
  if (!problems.empty()) {
    throw ConfigError(concat(source, ": the weights do not fit the model (", given.size(), " of ",
                             own.size(), " tensors do):", problems));
  }
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) {
    tensor.copy_(given.at(name));
  }
}

}  // namespace temper
