#include "launch/attempt.h"

#include <system_error>

#include "temper/core/error.h"

namespace temper {

namespace fs = std::filesystem;

fs::path attempt_directory(const fs::path& run_directory, int number) {
  return run_directory / "logs" / concat("attempt-", number);
}

Attempt start_attempt(const fs::path& run_directory) {
  Attempt attempt;
  if (run_directory.empty()) {
    return attempt;
  }
  std::error_code error;
  fs::create_directories(run_directory / "logs", error);
  const auto name = [&](int number) { return attempt_directory(run_directory, number); };
  while (!error && !fs::create_directory(name(attempt.number), error) && !error) {
    ++attempt.number;
  }
  if (error) {
    throw ConfigError(concat("cannot make ", name(attempt.number).string(), ": ", error.message()));
  }
  const fs::path report = run_directory / "failure.json";
  if (attempt.number > 1 && fs::exists(report)) {
    fs::rename(report, name(attempt.number - 1) / "failure.json");
  }
  attempt.directory = name(attempt.number);
  return attempt;
}

}  // namespace temper
