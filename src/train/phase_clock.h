#pragma once
// Seconds of the host in each phase of the steps.

#include <array>
#include <chrono>

#include "train/update_summary.h"

namespace temper {

class PhaseClock {
 public:
  void enter(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    if (running_) {
      seconds_.at(static_cast<std::size_t>(phase_)) +=
          std::chrono::duration<double>(now - since_).count();
    }
    running_ = true;
    phase_ = phase;
    since_ = now;
  }
  // Time outside the steps belongs to no phase.
  void stop() {
    enter(phase_);
    running_ = false;
  }
  // The seconds since the last call.
  [[nodiscard]] std::array<double, kPhases> take() {
    const auto seconds = seconds_;
    seconds_.fill(0);
    return seconds;
  }

 private:
  std::array<double, kPhases> seconds_{};
  std::chrono::steady_clock::time_point since_;
  Phase phase_ = Phase::kData;
  bool running_ = false;
};

}  // namespace temper
