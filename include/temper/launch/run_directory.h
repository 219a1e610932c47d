#pragma once
// The folder of one run. Made once: by the launcher, or by rank 0, which tells the others.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "temper/dist/store.h"

namespace temper {

// What two starts of the same job have in common. Under torchrun the run id alone may be anything.
struct LaunchIdentity {
  std::string job{};  // Slurm's, by slurm_job(); empty: none
  std::string run_id{};
  std::string master{};               // address:port
  std::vector<std::string> agents{};  // parents of the ranks; one in common is the same job
  int restart_count = 0;
};

// As it stands in run.json under "launch".
[[nodiscard]] std::string to_json(const LaunchIdentity& identity);

// Whether the run.json of a folder is that of an earlier attempt of this launch, of which this is a
// restart: by the launcher or agent (`identity.restart_count`), or by Slurm (`requeues`).
[[nodiscard]] bool is_restart_of(const std::filesystem::path& run_file,
                                 const LaunchIdentity& identity, int requeues);

struct RunDirectoryOptions {
  // --run-dir. Empty: <output>/<name>/<job> in a Slurm job; else, when torchrun has restarted the
  // ranks, the folder of the attempt before; else the next free <output>/<name>/<NNN>.
  std::filesystem::path directory{};
  std::filesystem::path output{};
  std::string name{};
  std::string job{};                         // Slurm's, by slurm_job(); empty: none
  std::optional<LaunchIdentity> identity{};  // under torchrun
};

// Makes the folder if it is not there and checks that files can be written in it. Safe against
// other runs that choose at the same time. ConfigError with the system's reason if it cannot be
// used; folders made on the way are removed again.
[[nodiscard]] std::filesystem::path choose_run_directory(const RunDirectoryOptions& options);

// Keeps other runs out of a run's folder while it lives, by a lock that ends with the process.
// ConfigError when another run holds it.
class RunDirectoryLock {
 public:
  explicit RunDirectoryLock(const std::filesystem::path& directory);
  ~RunDirectoryLock();
  RunDirectoryLock(const RunDirectoryLock&) = delete;
  RunDirectoryLock& operator=(const RunDirectoryLock&) = delete;

 private:
  int descriptor_;
};

// The same for ranks without our launcher: rank 0 chooses, all return its choice. If rank 0 cannot
// use it every rank throws the same ConfigError.
[[nodiscard]] std::filesystem::path share_run_directory(Store& store, int rank,
                                                        const RunDirectoryOptions& options,
                                                        std::chrono::milliseconds timeout);

// Starts the logs of one more attempt in the run directory on rank 0, and returns its number on all
// ranks.
[[nodiscard]] int share_attempt(Store* store, int rank, const std::filesystem::path& directory,
                                std::chrono::milliseconds timeout);

}  // namespace temper
