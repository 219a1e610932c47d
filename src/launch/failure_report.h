#pragma once
// From the ends of the ranks to one verdict: the exit status, the root cause, its victims.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "temper/launch/heartbeat.h"
#include "temper/launch/worker.h"

namespace temper {

inline constexpr int kStatusFailed = 1;
inline constexpr int kStatusConfig = 2;
inline constexpr int kStatusCheckpointed = 75;
inline constexpr int kStatusTimeBudget = 124;
inline constexpr int kStatusInterrupted = 130;
inline constexpr int kStatusTerminated = 143;

// How one rank ended. Times are CLOCK_MONOTONIC.
struct RankEnd {
  int rank = 0;
  int pid = 0;
  int exit_code = 0;
  int signal = 0;                // 0: it exited
  std::int64_t nanoseconds = 0;  // of its own report, else of its death
  std::optional<FailureCategory> reported{};
  std::string message{};  // of the report
  Beat beat{};
  std::vector<std::string> last_lines{};
  bool ended_by_launcher = false;  // by a signal the launcher had sent
  std::int64_t peak_memory = 0;    // bytes resident
  std::int64_t loader_bytes = 0;   // the most that its loader may hold
  bool left_early = false;         // with a good status, but before it had done its part
  bool stopped_early = false;      // by a request, before there was anything to save
  bool out_of_memory = false;      // the kernel ended it for that
  std::string kill_verdict{};      // who sent SIGKILL, if the launcher did not
};

// What the launcher had been asked to do.
struct StopState {
  int signal = 0;  // 0: run to the end
  bool at_once = false;
};

struct Failure {
  RankEnd end{};
  FailureCategory category = FailureCategory::kExit;
  std::string error{};  // in words, first line
};

struct Verdict {
  int status = 0;
  std::optional<Failure> cause{};  // none: nothing failed
  std::vector<RankEnd> victims{};  // every other rank that did not end by itself with a good status
};

// Earliest cause first; a lost peer is one only if there is nothing else to blame, not even a rank
// that left early with a good status.
[[nodiscard]] Verdict judge(const std::vector<RankEnd>& ends, const StopState& stop);

// A status by which a rank ends when nothing is wrong.
[[nodiscard]] bool is_good_status(int exit_code);

[[nodiscard]] FailureCategory category_of(const RankEnd& end);
[[nodiscard]] Failure make_failure(const RankEnd& end);

// Whether the same command may do better when it is started again.
[[nodiscard]] bool can_go_away(const Failure& failure);

// "SIGKILL"
[[nodiscard]] std::string signal_name(int signal);

// "rank 1 (pid 4711, host n2) killed by SIGKILL (signal 9) in phase attack at update 1204" or
// "rank 1 (pid 4711, host n2) failed: <error> in phase attack at update 1204".
[[nodiscard]] std::string failure_line(const Failure& failure, const std::string& host);

struct ReportPlace {
  std::string host{};
  int attempt = 0;
  std::filesystem::path run_directory{};  // empty: no files
  std::filesystem::path log_directory{};
};

// What goes to standard error; needs a verdict with a cause.
[[nodiscard]] std::string failure_text(const Verdict& verdict, const ReportPlace& place);

// The content of failure.json.
[[nodiscard]] std::string failure_json(const Verdict& verdict, const ReportPlace& place);

}  // namespace temper
