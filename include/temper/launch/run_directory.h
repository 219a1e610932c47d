#pragma once
// The folder of one run. Made once: by the launcher, or by rank 0, which tells the others.

#include <chrono>
#include <filesystem>
#include <string>

#include "temper/dist/store.h"

namespace temper {

struct RunDirectoryOptions {
  std::filesystem::path directory{};  // --run-dir; empty: the next free <output>/<name>/<NNN>
  std::filesystem::path output{};
  std::string name{};
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

}  // namespace temper
