#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "temper/core/error.h"
#include "temper/models/foreign_weights.h"
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
WeightFile read_weights(const std::string& path, WeightSet weights) {
  try {
    WeightFile file = read_weight_file(path, weights);
    check_finite(file.weights, path);
    return file;
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

std::string list_text(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) {
    // Seven digits, as buffers are float32.
    constexpr double kScale = 1e7;
    texts.push_back(to_text(std::round(value * kScale) / kScale));
  }
  return concat("[", join(texts, ", "), "]");
}

std::string normalization_text(const Normalization& normalization) {
  return concat("mean ", list_text(normalization.mean), ", std ", list_text(normalization.std));
}

bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kTolerance = 1e-6;  // of float32 buffers
  return std::ranges::equal(
      a, b, [](double x, double y) { return std::abs(x - y) <= kTolerance * (1 + std::abs(y)); });
}

// An empty normalisation leaves pixels as they are.
bool are_same(const Normalization& file, Normalization model) {
  if (model.mean.empty()) {
    model.mean.assign(file.mean.size(), 0);
    model.std.assign(file.std.size(), 1);
  }
  return are_close(file.mean, model.mean) && are_close(file.std, model.std);
}

// What was done to names and tensors of a file; empty when nothing was.
std::string adoption_text(const AdoptedWeights& adopted, const Normalization& own) {
  std::string text;
  if (!adopted.names.empty()) {
    text += concat("; names translated from ", adopted.names);
  }
  if (!adopted.prefix.empty()) {
    text += concat("; '", adopted.prefix, "' before all names taken off");
  }
  if (adopted.unused > 0) {
    text += concat("; ", adopted.unused, " tensors of the unused sub_block1 left out");
  }
  if (adopted.normalization) {
    const Normalization& file = *adopted.normalization;
    text += are_same(file, own) ? "; its normalisation is that of data.normalization"
                                : concat("; WARNING: its normalisation, ", normalization_text(file),
                                         ", is not data.normalization, ",
                                         own.mean.empty() ? "none" : normalization_text(own));
  }
  return text;
}

}  // namespace

std::string load_weights(Classifier& model, const std::string& path, WeightSet weights) {
  const WeightFile file = read_weights(path, weights);
  const AdoptedWeights adopted = adopt_weights(file.weights, model, path);
  load_state_dict(model, adopted.weights, path);
  std::string text = adoption_text(adopted, model.normalization());
  if (file.has_average && weights == WeightSet::kModel) {
    text += "; it also holds their average, which the validations of its training used (--average)";
  }
  return text.empty() ? "" : concat("weights from ", path, text);
}

std::string load_initial_weights(Classifier& model, const ModelConfig& config) {
  const std::string& path = *config.initial_weights;
  const AdoptedWeights file =
      adopt_weights(read_weights(path, WeightSet::kModel).weights, model, path);
  check_ignored(config, file.weights, model);
  try {
    const LoadedState loaded = load_state_dict(model, file.weights, path, config.ignore_initial);
    return concat("initial weights: ", loaded.taken, " of ", loaded.total, " tensors from ", path,
                  adoption_text(file, model.normalization()),
                  loaded.ignored.empty() ? "" : concat("; drawn anew: ", shown(loaded.ignored)));
  } catch (const StateMismatch& mismatch) {
    throw ConfigError(concat(
        mismatch.what(),
        mismatch.resized().empty() ? "" : advice(mismatch.resized(), config.ignore_initial)));
  }
}

}  // namespace temper
