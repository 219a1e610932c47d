#pragma once
// The files of a run directory that describe the run, and its sinks.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "temper/launch/run_directory.h"
#include "temper/metrics/console_sink.h"
#include "temper/metrics/sink.h"
#include "temper/metrics/status_file.h"
#include "temper/recipe/load_config.h"

namespace temper {

// What run.json tells about a run beside its versions.
struct RunDescription {
  std::vector<std::string> command;
  std::vector<std::string> hosts;
  std::string launcher;
  LaunchIdentity launch;
  int world_size = 1;
  int compute_threads = 1;
  std::uint64_t seed = 0;
  std::string data_fingerprint;
};

// config.yaml and run.json.
void write_run_files(const std::filesystem::path& run_directory, const LoadedConfig& loaded,
                     const RunDescription& description);

// All sinks of the main rank. `resumed_update`: later records of an interrupted process are
// dropped.
[[nodiscard]] std::unique_ptr<Sink> make_sinks(const std::filesystem::path& run_directory,
                                               const Config& config, ProgressMode progress,
                                               RunLength length,
                                               std::optional<std::int64_t> resumed_update);

}  // namespace temper
