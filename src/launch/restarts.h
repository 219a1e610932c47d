#pragma once
// Whether the ranks are started again after a failure, and when.

#include <chrono>
#include <cstdint>
#include <string>

#include "launch/failure_report.h"
#include "launch/rank_output.h"

namespace temper {

class Restarts {
 public:
  // The wait doubles with each restart. `console` must outlive the object.
  Restarts(int most, std::chrono::milliseconds first_wait, Console& console);

  [[nodiscard]] int count() const { return count_; }

  // Decides whether another attempt makes sense, says so, and waits for its time. False also when a
  // signal asks to stop meanwhile; `signals` is the launcher's signalfd.
  [[nodiscard]] bool next(const Verdict& verdict, int signals);

  // The signal that ended the wait; 0: none did.
  [[nodiscard]] int stopped_by() const { return stopped_by_; }

 private:
  [[nodiscard]] std::string reason_against(const Failure& cause, std::int64_t update) const;

  int most_;
  std::chrono::milliseconds wait_;
  Console& console_;
  std::int64_t last_update_ = -1;
  int count_ = 0;
  int stopped_by_ = 0;
};

}  // namespace temper
