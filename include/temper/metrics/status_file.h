#pragma once
// status.json: what the run is doing now, for people and scripts. Replaced in one step at most
// every `interval`, and at each event and validation.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "temper/metrics/pace.h"
#include "temper/metrics/sink.h"

namespace temper {

// {state, epoch, epochs, update, updates, images_per_second, eta_seconds, updated_at}. `state` is
// running, preempted or finished; failed (with failure.json) or stopped (at once, unsaved) come
// from what watches over a run that could not write its end, src/launch/run_state.h.
class StatusFile final : public Sink {
 public:
  StatusFile(std::filesystem::path path, RunLength length,
             std::chrono::milliseconds interval = std::chrono::seconds(2),
             SteadyClock clock = std::chrono::steady_clock::now);

  void write(const TrainRecord& record) override;
  void write(const ValidationRecord& record) override;
  void write(const Event& event) override;

 private:
  void save();

  std::filesystem::path path_;
  RunLength length_;
  std::chrono::milliseconds interval_;
  SteadyClock clock_;
  std::string state_ = "running";
  TrainRecord last_;
  Pace pace_;
  std::optional<SteadyTime> saved_;
};

}  // namespace temper
