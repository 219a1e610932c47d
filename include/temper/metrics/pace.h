#pragma once
// How fast a run goes, and how long the rest takes.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace temper {

using SteadyTime = std::chrono::steady_clock::time_point;
using SteadyClock = std::function<SteadyTime()>;

// The whole length of a run.
struct RunLength {
  int epochs = 0;
  std::int64_t updates = 0;
};

class Pace {
 public:
  void observe(std::int64_t update, SteadyTime now) {
    if (!first_time_) {
      first_time_ = now;
      first_update_ = update;
    }
    last_time_ = now;
    last_update_ = update;
  }

  // Expected seconds for `updates` more, from the mean pace of this process, validation included;
  // empty until two observations show progress.
  [[nodiscard]] std::optional<double> seconds_for(std::int64_t updates) const {
    if (!first_time_ || last_update_ <= first_update_ || updates < 0) {
      return std::nullopt;
    }
    const std::chrono::duration<double> elapsed = last_time_ - *first_time_;
    return elapsed.count() / static_cast<double>(last_update_ - first_update_) *
           static_cast<double>(updates);
  }

 private:
  std::optional<SteadyTime> first_time_;
  SteadyTime last_time_{};
  std::int64_t first_update_ = 0;
  std::int64_t last_update_ = 0;
};

}  // namespace temper
