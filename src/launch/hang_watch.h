#pragma once
// Decides from the ranks' beats and collectives whether the job stands still, and who is to blame.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "temper/dist/collective_progress.h"
#include "temper/launch/heartbeat.h"

namespace temper {

// In place of a state: nothing has come from the process for the whole time-out.
inline constexpr char kUnheardState = '-';

// What is seen of a rank that has not ended.
struct RankActivity {
  int rank = 0;
  Beat beat{};
  CollectiveState collective{};
  char state = '?';  // of the process in /proc/PID/stat; T or t: stopped
};

struct Hang {
  int rank = 0;          // the laggard
  bool stopped = false;  // it was stopped by a signal and cannot show its stacks until it goes on
  std::string text{};    // why it is to blame, and what the others wait for
};

// Blames a rank that has not moved for `timeout`: first one that is stopped, then one outside of a
// collective, of these the one whose last beat is oldest, for the others soon wait for it. When all
// wait in collectives, the one that has begun the fewest: it left one out. A rank that waits in a
// collective for another that moves is no hang.
// `now` is CLOCK_MONOTONIC in nanoseconds, as in beats.
[[nodiscard]] std::optional<Hang> find_hang(const std::vector<RankActivity>& ranks,
                                            std::int64_t now, std::chrono::milliseconds timeout);

// The state of a process and its parent; '?' and 0 when they cannot be read.
[[nodiscard]] char process_state(int pid);
[[nodiscard]] int parent_of(int pid);

}  // namespace temper
