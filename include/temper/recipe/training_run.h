#pragma once
// One rank of a training run, from its environment to its exit status.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "temper/launch/environment.h"
#include "temper/launch/heartbeat.h"
#include "temper/metrics/console_sink.h"
#include "temper/recipe/build.h"
#include "temper/recipe/load_config.h"

namespace temper {

struct ResumePolicy {
  enum class Kind { kAuto, kNever, kMust, kFile };
  Kind kind = Kind::kAuto;
  std::filesystem::path file;  // of kFile
};
// auto, never, must or a path.
[[nodiscard]] ResumePolicy parse_resume_policy(const std::string& text);

struct TrainingRun {
  LoadedConfig loaded;
  RankEnvironment environment;
  std::filesystem::path run_directory;  // --run-dir; empty: chosen
  ResumePolicy resume;
  std::vector<std::string> allowed_changes;  // --allow-change
  ProgressMode progress = ProgressMode::kAuto;
  std::optional<int> cpus;           // --cpus
  std::vector<std::string> command;  // argv
  Heartbeat::Observer on_phase;      // for tools and tests; null: none
};

// Runs to the end, a stop request or a failure, and returns the exit status of the contract. The
// failure of this rank is logged and left where the launcher finds it.
[[nodiscard]] int run_training_rank(const TrainingRun& run, const Catalogs& catalogs = {});

// The checkpoint that --resume names. ConfigError when it is missing, damaged or no checkpoint of
// Temper.
[[nodiscard]] Value read_resume_file(const std::string& path);

// Finds the user's mistakes that can be found without starting ranks: data that is missing or does
// not fit, a model that does not fit the data, a checkpoint that the run cannot go on from. Throws
// ConfigError.
void check_training_inputs(const TrainingRun& run, int world_size, const Catalogs& catalogs = {});

}  // namespace temper
