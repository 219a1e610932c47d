#pragma once
// Sums over the updates of one logging interval.

#include <array>
#include <chrono>
#include <vector>

#include "temper/eval/evaluation.h"
#include "temper/metrics/record.h"
#include "temper/train/progress.h"
#include "train/update_summary.h"

namespace temper {

class LoggingInterval {
 public:
  void restart();
  // Leaves the sums; time before now does not count.
  void restart_clock() { since_ = std::chrono::steady_clock::now(); }
  // `values`: the reduced summary of an applied update.
  void add(const double* values, int world_size);
  [[nodiscard]] TrainRecord record(int epoch, const Progress& progress, double learning_rate,
                                   int world_size) const;

 private:
  std::array<double, kFieldCount> sums_{};
  double gradient_norm_ = kNotANumber;
  double peak_memory_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

[[nodiscard]] ValidationRecord validation_record(const EvaluationResult& result, int epoch,
                                                 std::int64_t update);

}  // namespace temper
