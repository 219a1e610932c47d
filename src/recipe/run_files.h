#pragma once
// The files of a run directory that describe the run, and its sinks.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "temper/metrics/console_sink.h"
#include "temper/metrics/sink.h"
#include "temper/metrics/status_file.h"
#include "temper/recipe/load_config.h"

namespace temper {

// What run.json tells about a run beside its versions.
struct RunDescription {
  std::vector<std::string> command;
  int world_size = 1;
  int compute_threads = 1;
  std::uint64_t seed = 0;
  std::string data_fingerprint;
};

// config.yaml and run.json.
void write_run_files(const std::filesystem::path& run_directory, const LoadedConfig& loaded,
                     const RunDescription& description);

// Keeps what an earlier run left in the folder, for a run that starts anew there: its records and
// checkpoints get the next free number (metrics.1.jsonl, checkpoints.1), and the console one line.
void set_aside_old_run(const std::filesystem::path& run_directory);

// All sinks of the main rank. `resumed_update`: later records of an interrupted process are
// dropped.
[[nodiscard]] std::unique_ptr<Sink> make_sinks(const std::filesystem::path& run_directory,
                                               const Config& config, ProgressMode progress,
                                               RunLength length,
                                               std::optional<std::int64_t> resumed_update);

}  // namespace temper
