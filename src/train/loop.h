#pragma once
// The training loop behind Trainer: the steps in loop.cpp, what falls due between them in
// duties.cpp.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "temper/dist/delayed_read.h"
#include "temper/dist/rank_failure.h"
#include "temper/train/trainer.h"
#include "train/data_watch.h"
#include "train/interval.h"
#include "train/numerics_watch.h"
#include "train/phase_clock.h"
#include "train/run_state.h"
#include "train/update_summary.h"

namespace temper {

class Trainer::Loop {
 public:
  Loop(const TrainerParts& parts, const TrainerOptions& options);
  void restore(const Value& checkpoint);
  StopReason run();

  Progress progress;  // of the updates whose outcome is known

 private:
  using Clock = std::chrono::steady_clock;

  // One rank's part of an update on its device.
  struct DeviceUpdate {
    std::vector<ImageBatch> micro_batches{};
    std::vector<std::int64_t> global_sizes{};  // of the micro-batches, over all ranks
    std::int64_t global_size = 0;
  };

  // What has been asked of the device but may not be known on the host yet.
  struct Launched {
    std::int64_t update = 0;
    std::int64_t samples = 0;
    double learning_rate = 0;
  };

  void step();
  DeviceUpdate fetch();
  [[nodiscard]] ImageBatch fetch_batch();
  void start_loading(std::uint32_t epoch, std::uint64_t first);
  void report_bad_samples(std::int64_t count);
  void report_loading();
  [[nodiscard]] ImageBatch empty_batch();
  void compute_gradients(const DeviceUpdate& update);
  void mix_micro_batch(ImageBatch& batch, std::size_t number, std::int64_t global_size);
  void compute_micro_batch(const ImageBatch& batch, std::size_t number, double scale, bool last);
  [[nodiscard]] std::int64_t batch_of(std::int64_t update) const {
    return update / options_.shape.updates_per_batch;
  }
  [[nodiscard]] bool is_replay(std::int64_t update) const {
    return update % options_.shape.updates_per_batch != 0;
  }
  void note_failure();
  void take_outcomes(bool flush);
  void take_outcome(const Launched& launched, const double* values);
  void watch(const double* values);
  void do_due_work();
  void compare_replicas();
  [[nodiscard]] bool is_due_now(const Period& period) const;
  void agree_on_stop();
  void check_overfitting();
  void accept_check(double accuracy);
  int roll_back();
  [[nodiscard]] bool has_ended_early() const;
  bool validate();
  void save(bool best);
  void finish();
  void enter(Phase phase, std::string_view name);
  void note_save_requests();
  void note_place(std::string_view phase, std::int64_t update);
  void event(const char* what, std::vector<std::pair<std::string, EventDetail>> details = {});
  [[nodiscard]] RunParts run_parts() const;
  [[nodiscard]] int epoch_of(std::int64_t update) const;
  [[nodiscard]] StopReason own_stop_request() const;
  [[nodiscard]] bool stops_early() const;
  [[nodiscard]] std::int64_t peak_memory_to_log() const;
  [[nodiscard]] bool is_logged(std::int64_t update) const;

  TrainerParts parts_;
  TrainerOptions options_;
  std::vector<at::Tensor> parameters_;
  RankReduction ranks_;                // for the method
  std::optional<DeviceUpdate> batch_;  // kept for its replays
  PendingStatistics statistics_;
  UpdateSummary summary_;
  DelayedRead outcomes_;
  std::vector<Launched> launched_;
  std::int64_t next_update_ = 0;  // to be launched
  std::int64_t loading_epoch_ = -1;
  std::int64_t saved_update_ = -1;
  std::int64_t compared_update_ = -1;
  RankFailure failure_;  // of this rank alone; the others do not know yet
  std::string_view phase_;
  StopReason stop_ = StopReason::kFinished;
  bool stopped_ = false;
  ValueDict roll_back_to_;        // the state at the last good check; empty without one
  std::int64_t saves_asked_ = 0;  // of this rank, that the others know of
  bool save_requested_ = false;   // by any rank, agreed
  PhaseClock clock_;
  LoggingInterval interval_;
  NumericsWatch watch_;
  DataWatch data_watch_;
  LoaderStatistics loaded_;  // of the epoch before the one that is being loaded
  Clock::time_point started_ = Clock::now();
};

}  // namespace temper
