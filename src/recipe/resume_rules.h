#pragma once
// What may change between a checkpoint and the run that goes on from it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "temper/checkpoint/value.h"

namespace temper {

// What must be the same before and after, since the samples of an update depend on it.
struct ResumeKey {
  std::string data_fingerprint{};
  std::int64_t seed = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t compute_threads = 1;  // not compared: a resumed run takes over the number
  std::string config{};              // print_config without comments; a difference is logged
};

// The names that --allow-change takes: data, run.seed, training.global_batch_size. Throws
// ConfigError for another one.
void check_allowed_changes(const std::vector<std::string>& names);

// Throws DataError when an entry that a run needs is missing or of another type, ConfigError when
// the checkpoint is of another format version: passing over it would lose what it holds.
void check_entries(const std::filesystem::path& path, const Value& checkpoint);

// Throws ConfigError when something that must be the same differs and is not among `allowed`.
// `path` names the checkpoint.
void check_resume(const std::string& path, const Value& checkpoint, const ResumeKey& now,
                  const std::vector<std::string>& allowed);

struct ConfigChange {
  std::string key;
  std::string before;  // empty: there was no such key
  std::string now;     // likewise
};
// The keys whose values differ between two texts of print_config.
[[nodiscard]] std::vector<ConfigChange> config_changes(const std::string& before,
                                                       const std::string& now);

}  // namespace temper
