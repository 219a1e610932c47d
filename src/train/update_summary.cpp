#include "train/update_summary.h"

#include <ATen/ATen.h>

#include "temper/core/error.h"
#include "temper/metrics/record.h"

namespace temper {
namespace {

constexpr std::array kStopOrder{StopReason::kInterrupt, StopReason::kTerminate,
                                StopReason::kCheckpoint, StopReason::kTimeUp};
static_assert(kStopOrder.size() == kPhaseTimes - kStopFlags);
static_assert(kLossSum == 0 && kSampleCount == 9);  // the sums of UpdateSummary::add

}  // namespace

UpdateSummary::UpdateSummary(Communicator& communicator, const Placement& placement,
                             std::int64_t statistics_size)
    : communicator_(communicator),
      options_(at::TensorOptions().dtype(at::kDouble).device(placement.device)),
      statistics_size_(statistics_size) {}

void UpdateSummary::begin() {
  values_ = at::zeros({kFieldCount + communicator_.world_size() + statistics_size_}, options_);
}

void UpdateSummary::add(const StepOutput& output, const at::Tensor& labels) {
  const at::Tensor absent = at::full({}, kNotANumber, options_);
  const auto value = [&](const at::Tensor& sum) {
    return sum.defined() ? sum.to(at::kDouble) : absent;
  };
  const at::Tensor predictions =
      output.predictions.defined() ? output.predictions.to(at::kDouble) : absent;
  const at::Tensor sums = at::stack(
      {value(output.loss), value(output.clean_loss), value(output.robust_loss),
       value(output.clean_correct), value(output.adversarial_correct), value(output.gradients.zero),
       value(output.gradients.nonfinite), predictions.sum(), predictions.square().sum()});
  values_.narrow(0, kLossSum, sums.numel()).add_(sums);
  values_[kSampleCount].add_(labels.numel());
  values_[kLabelledCount].add_(labels.ge(0).sum());
  values_[kNonfiniteRanks].add_(output.loss.isfinite().logical_not());
}

void UpdateSummary::reduce(StopReason stop, bool failed, std::int64_t bad_samples,
                           const std::array<double, kPhases>& seconds, std::int64_t peak_memory,
                           PendingStatistics& statistics) {
  std::vector<double> host(kFieldCount + static_cast<std::size_t>(communicator_.world_size()), 0);
  host[kFailedRanks] = failed ? 1 : 0;
  host[kBadSampleCount] = static_cast<double>(bad_samples);
  for (std::size_t i = 0; i < kStopOrder.size(); ++i) {
    host[kStopFlags + i] = stop == kStopOrder[i] ? 1 : 0;
  }
  std::ranges::copy(seconds, host.begin() + kPhaseTimes);
  host[kFieldCount + static_cast<std::size_t>(communicator_.rank())] =
      static_cast<double>(peak_memory);
  values().add_(at::tensor(host, at::kDouble).to(options_.device(), /*non_blocking=*/true));
  at::Tensor packed = values_.narrow(0, values().numel(), statistics_size_);
  const bool averages = statistics_size_ > 0 && communicator_.world_size() > 1;
  if (averages) {
    statistics.pack(packed);
  }
  const PurposeScope scope(communicator_, "update summary");
  communicator_.all_reduce_sum(values_);
  if (averages) {
    statistics.unpack(packed);
  }
}

at::Tensor UpdateSummary::decide(const at::Tensor& gradient_norm,
                                 const at::Tensor& statistics_are_finite) {
  const at::Tensor flags = values_.narrow(0, kNonfiniteRanks, kPhaseTimes - kNonfiniteRanks).sum();
  const at::Tensor finite = gradient_norm.isfinite().logical_and(statistics_are_finite);
  const at::Tensor skip = finite.logical_not().logical_or(flags.gt(0));
  values_[kGradientNorm].copy_(gradient_norm);
  values_[kSkipped].copy_(skip);
  return skip.to(at::kFloat);
}

StopReason stop_reason_of(const double* values) {
  for (std::size_t i = 0; i < kStopOrder.size(); ++i) {
    if (values[kStopFlags + i] > 0) {
      return kStopOrder[i];
    }
  }
  return StopReason::kFinished;
}

}  // namespace temper
