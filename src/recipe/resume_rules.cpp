#include "recipe/resume_rules.h"

#include <algorithm>
#include <map>

#include "temper/core/error.h"
#include "temper/train/checkpoint_entries.h"

namespace temper {
namespace {

const std::string kData = "data";
const std::string kSeed = "run.seed";
const std::string kGlobalBatch = "training.global_batch_size";

struct Difference {
  const std::string& name;
  std::string what;
  std::string before;
  std::string now;
};

// Values by dotted key of a text of print_config: two spaces of indentation a level.
std::map<std::string, std::string> flatten(const std::string& text) {
  std::map<std::string, std::string> values;
  std::vector<std::string> path;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t indentation = line.find_first_not_of(' ');
    const std::size_t colon = line.find(':');
    if (indentation == std::string::npos || colon == std::string::npos) {
      continue;
    }
    path.resize(std::min(path.size(), indentation / 2));
    path.push_back(line.substr(indentation, colon - indentation));
    const std::string value(trim(std::string_view(line).substr(colon + 1)));
    if (!value.empty()) {
      values[join(path, ".")] = value;
    }
  }
  return values;
}

}  // namespace

void check_allowed_changes(const std::vector<std::string>& names) {
  const std::vector<std::string> known{kData, kSeed, kGlobalBatch};
  for (const std::string& name : names) {
    if (std::ranges::count(known, name) == 0) {
      const std::string meant = closest_match(name, known);
      throw ConfigError(concat("--allow-change ", name, ": expected one of ", join(known, ", "),
                               meant.empty() ? "" : concat("; did you mean '", meant, "'?"),
                               ". Other keys may change without it"));
    }
  }
}

void check_entries(const std::filesystem::path& path, const Value& checkpoint) {
  const ValueDict& saved = checkpoint.as_dict();
  check_run_state(path.string(), saved);
  for (const std::string name : {"data_fingerprint", "config"}) {
    static_cast<void>(saved.at(name).as_string());
  }
  for (const std::string name : {"seed", "global_batch_size", "compute_threads"}) {
    static_cast<void>(saved.at(name).as_int());
  }
}

void check_resume(const std::string& path, const Value& checkpoint, const ResumeKey& now,
                  const std::vector<std::string>& allowed) {
  const ValueDict& saved = checkpoint.as_dict();
  const std::vector<Difference> compared{
      {kData, "data with the index hash", saved.at("data_fingerprint").as_string(),
       now.data_fingerprint},
      {kSeed, "run.seed", concat(saved.at("seed").as_int()), concat(now.seed)},
      {kGlobalBatch, "a global batch size of", concat(saved.at("global_batch_size").as_int()),
       concat(now.global_batch_size)}};
  std::string refused;
  std::string names;
  for (const Difference& item : compared) {
    if (item.before != item.now && std::ranges::count(allowed, item.name) == 0) {
      refused += concat("\n  made with ", item.what, " ", item.before, ", now it is ", item.now);
      names += concat(" --allow-change ", item.name);
    }
  }
  if (!refused.empty()) {
    throw ConfigError(
        concat(path, " does not fit: the samples of an update would be others.", refused,
               "\nSet it back, start a new run with another --run-dir, or go on all the same with",
               names));
  }
}

std::vector<ConfigChange> config_changes(const std::string& before, const std::string& now) {
  const std::map<std::string, std::string> old_values = flatten(before);
  const std::map<std::string, std::string> new_values = flatten(now);
  std::map<std::string, std::string> keys = old_values;
  keys.insert(new_values.begin(), new_values.end());
  const auto value_of = [](const auto& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second;
  };
  std::vector<ConfigChange> changes;
  for (const auto& [key, value] : keys) {
    ConfigChange change{key, value_of(old_values, key), value_of(new_values, key)};
    const bool both_absent = (change.before.empty() || change.before == "null") &&
                             (change.now.empty() || change.now == "null");
    if (change.before != change.now && !both_absent) {
      changes.push_back(std::move(change));
    }
  }
  return changes;
}

}  // namespace temper
