#pragma once
// Our own launcher: hosts the store, starts the ranks of one host from the same program and
// supervises them until all have ended.

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace temper {

struct LauncherOptions {
  int processes = 1;
  std::vector<std::string> command{};     // the original argv; ranks run it through /proc/self/exe
  std::filesystem::path run_directory{};  // for logs and failure.json; empty: none are written
  std::chrono::milliseconds grace = std::chrono::seconds(60);       // after a stop signal
  std::chrono::milliseconds peer_grace = std::chrono::seconds(10);  // after a rank has failed
  int threads_per_process = 0;                       // sets OMP_NUM_THREADS; 0 leaves the user's
  std::map<std::string, std::string> environment{};  // added to the ranks' environment
  std::vector<std::string> visible_devices{};        // CUDA_VISIBLE_DEVICES of each rank, or empty
  int max_restarts = 0;                              // only 0 for now, else ConfigError
  std::optional<std::chrono::milliseconds> hang_timeout{};  // only none for now, else ConfigError
};

// ConfigError for options that run_launcher would refuse; to be asked before a run leaves anything
// behind.
void check_launcher_options(const LauncherOptions& options);

// Runs until every rank has ended, and returns the exit status of the run:
//   0 all done; 1 a rank failed; 2 a rank met a configuration error; 75, 124 stopped after a
//   checkpoint; 130 Ctrl-C; 143 terminated without a checkpoint; 128+n root cause ended by signal
//   n.
// Ranks get RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
// TEMPER_LAUNCHER=spawn, TEMPER_RUN_DIR and TEMPER_CONSOLE=terminal|plain (whether the launcher's
// standard output is a terminal).
//
// Output: all lines of rank N are appended to logs/attempt-K/rank-N.log; the console shows those of
// rank 0, and warnings and errors of the others behind "[rank N] ". A text that ends in a carriage
// return, or a line that begins with the sequence ESC [2K (erase line), is progress: console only.
//
// When a rank fails the others get SIGTERM, after `peer_grace` SIGKILL; the report goes to standard
// error and failure.json. The first SIGINT, SIGTERM or SIGUSR1 is forwarded, ranks that still run
// after `grace` are killed; a second SIGINT kills at once. No rank outlives the call; if the
// launcher itself is killed the kernel sends SIGTERM to the ranks, see ParentWatchdog.
//
// Call from the main thread (the kernel ties the ranks' life to the calling thread), once at a
// time. SIGINT, SIGTERM, SIGUSR1 and SIGHUP stay blocked afterwards, so that a late duplicate
// cannot replace the exit status. Throws ConfigError for bad options and SystemError when ranks
// cannot be started; none is left running then.
[[nodiscard]] int run_launcher(const LauncherOptions& options);

}  // namespace temper
