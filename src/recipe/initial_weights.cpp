#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "temper/core/error.h"
#include "temper/models/model_state.h"
#include "temper/recipe/build.h"

namespace temper {
namespace {

constexpr std::size_t kNamesShown = 8;

// Weights that are no numbers would only show as skipped updates.
void check_finite(const StateDict& state, const std::string& path) {
  for (const auto& [name, tensor] : state) {
    if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>()) {
      throw ConfigError(concat(path, ": ", name, " holds values that are not finite"));
    }
    if (name.ends_with("running_var") && tensor.lt(0).any().item<bool>()) {
      throw ConfigError(concat(path, ": ", name, " holds a negative variance"));
    }
  }
}

// A file that cannot be used is the user's mistake here.
StateDict read_weights(const std::string& path, WeightSet weights) {
  try {
    StateDict state = read_state_dict(path, weights);
    check_finite(state, path);
    return state;
  } catch (const SystemError& error) {
    throw ConfigError(error.what());
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

// All names and what they lie in: fc.weight and fc.
std::set<std::string> parts_of(const StateDict& state) {
  std::set<std::string> parts;
  for (const auto& [name, tensor] : state) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      parts.insert(name.substr(0, dot));
    }
    parts.insert(name);
  }
  return parts;
}

// A part that names nothing is a slip of the pen that would be hard to see later.
void check_ignored(const ModelConfig& config, const StateDict& file, const Classifier& model) {
  std::set<std::string> known = parts_of(file);
  known.merge(parts_of(state_dict(model)));
  for (const std::string& part : config.ignore_initial) {
    if (!known.contains(part)) {
      const std::vector<std::string> candidates(known.begin(), known.end());
      const std::string meant = closest_match(part, candidates);
      throw ConfigError(concat("model.ignore_initial: neither ", *config.initial_weights,
                               " nor the model has a '", part, "'",
                               meant.empty() ? "" : concat("; did you mean '", meant, "'?")));
    }
  }
}

// For tensors of another size, as those of the last layer with another number of classes.
std::string advice(const std::vector<std::string>& resized, std::vector<std::string> ignored) {
  for (const std::string& name : resized) {
    const std::string part = name.substr(0, name.rfind('.'));
    if (std::ranges::find(ignored, part) == ignored.end()) {
      ignored.push_back(part);
    }
  }
  return concat("; for another number of classes set model.ignore_initial: [", join(ignored, ", "),
                "]");
}

std::string shown(const std::vector<std::string>& names) {
  const std::span<const std::string> all(names);
  return concat(join(all.first(std::min(all.size(), kNamesShown)), ", "),
                all.size() > kNamesShown ? ", ..." : "");
}

}  // namespace

void load_weights(Classifier& model, const std::string& path, WeightSet weights) {
  load_state_dict(model, read_weights(path, weights), path);
}

std::string load_initial_weights(Classifier& model, const ModelConfig& config) {
  const std::string& path = *config.initial_weights;
  const StateDict file = read_weights(path, WeightSet::kModel);
  check_ignored(config, file, model);
  try {
    const LoadedState loaded = load_state_dict(model, file, path, config.ignore_initial);
    return concat("initial weights: ", loaded.taken, " of ", loaded.total, " tensors from ", path,
                  loaded.ignored.empty() ? "" : concat("; drawn anew: ", shown(loaded.ignored)));
  } catch (const StateMismatch& mismatch) {
    throw ConfigError(concat(
        mismatch.what(),
        mismatch.resized().empty() ? "" : advice(mismatch.resized(), config.ignore_initial)));
  }
}

}  // namespace temper
