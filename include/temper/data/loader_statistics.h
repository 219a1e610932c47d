#pragma once
// Whether the loader keeps up, and what to do if not.

#include <cstdint>
#include <string>

namespace temper {

struct LoaderStatistics {
  std::uint64_t batches = 0;      // handed out
  std::uint64_t samples = 0;      // in them
  std::uint64_t bad_samples = 0;  // replaced or left out
  std::uint64_t bytes_read = 0;   // from the data set, without what came from the cache
  double seconds = 0;             // since start()
  double wait_seconds = 0;        // of the caller, for batches; without the first one
  double first_batch_seconds = 0;
  double load_seconds = 0;       // of all threads, reading included
  double read_seconds = 0;       // of all threads, for reading
  double queued_batches = 0;     // ready when one was asked for, mean
  int threads = 0;               // that decode, at the end
  std::uint64_t peak_bytes = 0;  // that counted against memory_limit, since the loader was made

  [[nodiscard]] double images_per_second() const;
  // Part of the time that the caller waited.
  [[nodiscard]] double wait_share() const;
};

// One line of advice when the caller waited for more than a tenth of the time, else empty. `cpus`:
// processors that the loader's threads may use. Too short a time says nothing and gives no advice.
[[nodiscard]] std::string loader_advice(const LoaderStatistics& statistics, int cpus);

}  // namespace temper
