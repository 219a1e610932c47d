#pragma once
// status.json: what the run is doing now, for people and scripts. Replaced in one step at most
// every `interval`, and at each event and validation.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "temper/metrics/sink.h"

namespace temper {

using SteadyClock = std::function<std::chrono::steady_clock::time_point()>;

struct RunLength {
  int epochs = 0;
  std::int64_t updates = 0;
};

// {state, epoch, epochs, update, updates, images_per_second, eta_seconds, updated_at}. `state` is
// running, preempted or finished; a launcher writes failure.json for a run that failed.
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
  std::optional<std::chrono::steady_clock::time_point> saved_;
  std::optional<std::chrono::steady_clock::time_point> first_time_;
  std::int64_t first_update_ = 0;
};

}  // namespace temper
