#pragma once
// From a command line to ranks: what the programs have in common.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "temper/launch/environment.h"
#include "temper/recipe/load_config.h"
#include "temper/recipe/placement.h"

namespace temper {

struct Catalogs;

struct StartOptions {
  std::string processes = "auto";  // --nproc
  std::string gpus = "all";        // --gpus
  bool uses_gpus = true;           // false: the ranks take the CPU, whatever there is
  std::string launcher = "auto";   // --launcher
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  std::chrono::milliseconds peer_grace = std::chrono::seconds(10);
  int max_restarts = 0;
  // 0: hangs are not looked for; none: the default of hang_timeout_or_default.
  std::optional<std::chrono::milliseconds> hang_timeout{};
  std::vector<std::string> command;  // argv
};

// Runs `work` as the rank that this process is, or starts the ranks of this host and supervises
// them. A rank whose work ends without report_finished() or report_failure() (guard_rank calls
// them) counts as one that has left the others. `prepare` is called once in the launcher, before it
// starts ranks, and returns the run directory (empty: none). Returns the exit status.
[[nodiscard]] int start_ranks(const StartOptions& options,
                              const std::function<std::filesystem::path()>& prepare,
                              const std::function<int(const RankEnvironment&)>& work);

// Without a choice 0.8 of distributed.timeout: collectives give up only after that, so the rank
// that keeps the others waiting is found before they end as its victims.
[[nodiscard]] std::chrono::milliseconds hang_timeout_or_default(const StartOptions& options,
                                                                const Config& config);

// The GPUs of --gpus among the visible ones; none when the ranks take the CPU. Throws ConfigError.
[[nodiscard]] GpuSelection selected_gpus(const StartOptions& options);

// Processes on this host for --nproc: a number, or auto for one a selected GPU and one without.
// Throws ConfigError, also when there are more than selected GPUs.
[[nodiscard]] int count_processes(const StartOptions& options, const GpuSelection& gpus);

// Runs a program's main part: errors are printed to standard error and become the exit status (2
// for the user's mistakes).
[[nodiscard]] int guard_main(const std::function<int()>& main);

// The text of --version.
[[nodiscard]] std::string version_text();

// The text of --dry-run: resolved configuration, placement of each rank, memory a rank needs, and
// whether the data is there.
[[nodiscard]] std::string dry_run_text(const LoadedConfig& loaded, const StartOptions& options,
                                       const Catalogs& catalogs);

}  // namespace temper
