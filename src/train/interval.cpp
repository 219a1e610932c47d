#include "train/interval.h"

#include <algorithm>

namespace temper {

void LoggingInterval::restart() {
  sums_.fill(0);
  gradient_norm_ = kNotANumber;
  restart_clock();
}

void LoggingInterval::add(const double* values, int world_size) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] += values[i];
  }
  gradient_norm_ = values[kGradientNorm];
  for (int rank = 0; rank < world_size; ++rank) {
    peak_memory_ = std::max(peak_memory_, values[kFieldCount + rank]);
  }
}

TrainRecord LoggingInterval::record(int epoch, const Progress& progress, double learning_rate,
                                    int world_size) const {
  const double samples = sums_[kSampleCount];
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
  const auto mean_over = [&](double count, SummaryField field) {
    return count > 0 ? sums_[field] / count : kNotANumber;
  };
  const auto mean = [&](SummaryField field) { return mean_over(samples, field); };
  const auto mean_of_labelled = [&](SummaryField field) {
    return mean_over(sums_[kLabelledCount], field);
  };
  const auto seconds = [&](Phase phase) {
    return sums_[static_cast<std::size_t>(kPhaseTimes) + static_cast<std::size_t>(phase)] /
           world_size;
  };
  return {.epoch = epoch,
          .update = progress.update,
          .samples = progress.samples,
          .loss = mean(kLossSum),
          .clean_loss = mean_of_labelled(kCleanLossSum),
          .robust_loss = mean(kRobustLossSum),
          .clean_accuracy = mean_of_labelled(kCleanCorrectSum),
          .adversarial_accuracy = mean_of_labelled(kAdversarialCorrectSum),
          .learning_rate = learning_rate,
          .gradient_norm = gradient_norm_,
          .zero_gradient_samples = sums_[kZeroGradientSum],
          .nonfinite_gradient_samples = sums_[kNonfiniteGradientSum],
          .images_per_second = elapsed > 0 ? samples / elapsed : kNotANumber,
          .seconds = {.data = seconds(Phase::kData),
                      .attack = seconds(Phase::kAttack),
                      .forward_backward = seconds(Phase::kForwardBackward),
                      .communication = seconds(Phase::kCommunication),
                      .optimizer = seconds(Phase::kOptimizer)},
          .peak_memory_bytes = static_cast<std::int64_t>(peak_memory_)};
}

ValidationRecord validation_record(const EvaluationResult& result, int epoch, std::int64_t update) {
  ValidationRecord record;
  record.epoch = epoch;
  record.update = update;
  record.samples = result.samples;
  record.clean_correct = result.clean_correct;
  record.clean_accuracy = result.accuracy(result.clean_correct);
  if (result.classes >= 10) {
    record.clean_top5_accuracy = result.accuracy(result.top5_correct);
  }
  if (!result.attacks.empty()) {
    const AttackResult& attack = result.attacks.front();
    record.robust_correct = attack.robust_correct;
    record.robust_accuracy = result.accuracy(attack.robust_correct);
    record.attack = attack.attack.name;
  }
  return record;
}

}  // namespace temper
