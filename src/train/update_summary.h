#pragma once
// The one small collective of an update: sums of losses and counts, flags, times and pending
// batch-norm statistics in one vector of doubles.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "temper/dist/communicator.h"
#include "temper/methods/training_method.h"
#include "temper/models/batch_norm.h"
#include "temper/train/trainer.h"

namespace temper {

// Places in the vector. A sum that the method does not have is NaN.
enum SummaryField : std::int64_t {
  kLossSum,
  kCleanLossSum,
  kRobustLossSum,
  kCleanCorrectSum,
  kAdversarialCorrectSum,
  kZeroGradientSum,  // samples, see GradientCounts
  kNonfiniteGradientSum,
  kPredictionSum,  // of predicted classes
  kPredictionSquareSum,
  kSampleCount,
  kLabelledCount,   // of them with a label: those of clean loss and accuracies
  kSaveRanks,       // asked to save and go on
  kBadSampleCount,  // that were replaced
  kNonfiniteRanks,
  kFailedRanks,
  kStopFlags,                       // one place for each StopReason but kFinished
  kPhaseTimes = kStopFlags + 4,     // one place a phase
  kGradientNorm = kPhaseTimes + 5,  // set after the reduction, equal on all ranks
  kSkipped,                         // likewise
  kFieldCount,
};

// A phase of the step; the order is that of PhaseSeconds.
enum class Phase : std::uint8_t { kData, kAttack, kForwardBackward, kCommunication, kOptimizer };
inline constexpr std::size_t kPhases = 5;

class UpdateSummary {
 public:
  UpdateSummary(Communicator& communicator, const Placement& placement,
                std::int64_t statistics_size);

  void begin();
  void add(const StepOutput& output, const at::Tensor& labels);
  // This rank is asked to save and go on.
  void ask_to_save() { values_[kSaveRanks].add_(1); }
  // Reduces this rank's sums, flags, peak memory and pending statistics over all ranks, which takes
  // one collective. `failed`: this rank had to do without its samples.
  // `bad_samples`: replaced ones of this rank.
  void reduce(StopReason stop, bool failed, std::int64_t bad_samples,
              const std::array<double, kPhases>& seconds, std::int64_t peak_memory,
              PendingStatistics& statistics);
  // Decides from the reduced flags, the averaged gradients and whether the statistics are finite
  // whether the update counts; float32 scalar on the device, 1: skip.
  [[nodiscard]] at::Tensor decide(const at::Tensor& gradient_norm,
                                  const at::Tensor& statistics_are_finite);

  // [kFieldCount + world size], with each rank's peak memory behind the fields.
  [[nodiscard]] at::Tensor values() const {
    return values_.narrow(0, 0, kFieldCount + communicator_.world_size());
  }

 private:
  Communicator& communicator_;
  at::TensorOptions options_;
  std::int64_t statistics_size_;
  at::Tensor values_;
};

// The most pressing reason among the reduced flags; kFinished for none.
[[nodiscard]] StopReason stop_reason_of(const double* values);

}  // namespace temper
