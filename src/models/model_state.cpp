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

// How a file and a module differ.
struct Differences {
  std::size_t fitting = 0;
  std::vector<std::string> missing{};
  std::vector<std::string> unexpected{};
  std::vector<std::string> misshapen{};  // with both shapes
  std::vector<std::string> resized{};    // the names among them whose first size alone differs
  std::vector<std::string> mistyped{};   // with both types

  void compare(const std::string& name, const at::Tensor& given, const at::Tensor& own) {
    if (own.sizes() != given.sizes()) {
      misshapen.push_back(concat(name, " ", shape_text(given), " instead of ", shape_text(own)));
      if (own.dim() > 0 && own.dim() == given.dim() &&
          own.sizes().slice(1) == given.sizes().slice(1)) {
        resized.push_back(name);
      }
    } else if (own.is_floating_point() && !given.is_floating_point()) {
      mistyped.push_back(concat(name, " ", c10::toString(given.scalar_type()), " instead of ",
                                c10::toString(own.scalar_type())));
    } else {
      ++fitting;
    }
  }

  void throw_if_any(const std::string& source, std::size_t count) const {
    std::string problems;
    add_problem(problems, "missing", missing);
    add_problem(problems, "unexpected", unexpected);
    add_problem(problems, "of another shape", misshapen);
    add_problem(problems, "of another type", mistyped);
    if (problems.empty()) {
      return;
    }
    const bool only_resized = missing.empty() && unexpected.empty() && mistyped.empty() &&
                              resized.size() == misshapen.size();
    throw StateMismatch(concat(source, ": the weights do not fit the model (", fitting, " of ",
                               count, " tensors do):", problems),
                        only_resized ? resized : std::vector<std::string>());
  }
};

bool is_batch_counter(const std::string& name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict out;
  append(module, "", out);
  return out;
}

bool is_within(std::string_view name, std::string_view part) {
  return name.starts_with(part) && (name.size() == part.size() || name[part.size()] == '.');
}

LoadedState load_state_dict(torch::nn::Module& module, const StateDict& state,
                            const std::string& source, const std::vector<std::string>& ignored) {
  const auto is_ignored = [&](const std::string& name) {
    return std::ranges::any_of(ignored, [&](const auto& part) { return is_within(name, part); });
  };
  LoadedState loaded;
  std::map<std::string, at::Tensor> own;
  for (const auto& [name, tensor] : state_dict(module)) {
    ++loaded.total;
    if (is_ignored(name)) {
      loaded.ignored.push_back(name);
    } else {
      own.emplace(name, tensor);
    }
  }
  std::map<std::string, at::Tensor> given;
  Differences differences;
  for (const auto& [name, tensor] : state) {
    if (is_ignored(name)) {
      continue;
    }
    given.emplace(name, tensor);
    const auto found = own.find(name);
    if (found == own.end()) {
      differences.unexpected.push_back(name);
    } else {
      differences.compare(name, tensor, found->second);
    }
  }
  for (const auto& [name, tensor] : own) {
    if (!given.contains(name) && !is_batch_counter(name)) {
      differences.missing.push_back(name);
    }
  }
  differences.throw_if_any(source, own.size());
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : own) {
    if (const auto found = given.find(name); found != given.end()) {
      tensor.copy_(found->second);
      ++loaded.taken;
    }
  }
  return loaded;
}

}  // namespace temper
