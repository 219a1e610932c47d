#pragma once
// What a rank leaves behind by itself: where it failed for torchrun's report, and, when no launcher
// of ours watches over it, its log and failure.json.

#include <filesystem>
#include <string>

#include "temper/launch/environment.h"
#include "temper/launch/heartbeat.h"

namespace temper {

// One at a time in a process, made by the main thread before other threads start. While it lives
//   - a crash (SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE) writes the stack to standard error, and
//   the
//     files below, before it ends the process as it would have;
//   - std::terminate says which exception nobody caught, and aborts;
//   - report_failure writes $TORCHELASTIC_ERROR_FILE (under torchrun) and failure.json.
// A rank that only lost a peer leaves torchrun's file alone, and a failure.json only until a cause
// replaces it; among causes the first one wins.
class RankFiles {
 public:
  // References must outlive the object.
  RankFiles(const RankEnvironment& environment, const Heartbeat& heartbeat);
  ~RankFiles();
  RankFiles(const RankFiles&) = delete;
  RankFiles& operator=(const RankFiles&) = delete;

  // From here on log lines go to logs/attempt-<attempt>/rank-<rank>.log as well, and failures to
  // failure.json. SystemError when the log cannot be opened.
  void open(const std::filesystem::path& run_directory, int attempt);
};

// For a failure outside of a rank's work, such as a configuration that cannot be read: writes
// $TORCHELASTIC_ERROR_FILE, if torchrun has named one and nothing is there yet, with the stack of
// the exception that is being handled. Never throws.
void report_to_torchrun(const std::string& message) noexcept;

}  // namespace temper
