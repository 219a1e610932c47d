#pragma once
// The log folder of one attempt to run in a run directory.

#include <filesystem>

namespace temper {

struct Attempt {
  int number = 1;
  std::filesystem::path directory{};  // empty: no logs
};

// Makes logs/attempt-K with the next free number; the report of an earlier attempt moves to its
// logs. Without a run directory nothing is made. ConfigError with the system's reason.
[[nodiscard]] Attempt start_attempt(const std::filesystem::path& run_directory);

[[nodiscard]] std::filesystem::path attempt_directory(const std::filesystem::path& run_directory,
                                                      int number);

}  // namespace temper
