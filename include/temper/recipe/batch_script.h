#pragma once
// The text of --print-sbatch: a Slurm batch script that runs a command of `trainer`.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

struct BatchScriptOptions {
  std::vector<std::string> command{};  // argv as the user gave it
  std::filesystem::path directory{};   // where the command was given; relative paths mean this
  std::string job_name{};
  std::filesystem::path runs{};  // <run.output>/<run.name>; a job has its folder below it
  int tasks_per_node = 1;
  int cpus_per_task = 1;
  bool gpus = false;                                    // one a task
  std::optional<std::chrono::milliseconds> max_time{};  // training.max_time
};

// Options that Slurm's settings replace are left out of the command: --print-sbatch, --nproc,
// --cpus, --launcher and the local rank. ConfigError for --gpus (Slurm chooses them).
[[nodiscard]] std::string batch_script(const BatchScriptOptions& options);

// A word that bash reads as exactly this text.
[[nodiscard]] std::string shell_quoted(std::string_view text);

}  // namespace temper
