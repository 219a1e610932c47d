#pragma once
// Records for tests.

#include <chrono>

#include "temper/metrics/pace.h"
#include "temper/metrics/record.h"

namespace temper {

inline TrainRecord train_record(int epoch, std::int64_t update) {
  return {.epoch = epoch,
          .update = update,
          .samples = update * 10,
          .loss = 0.5,
          .clean_loss = 0.25,
          .robust_loss = kNotANumber,
          .clean_accuracy = 0.75,
          .adversarial_accuracy = 0.5,
          .learning_rate = 0.1,
          .gradient_norm = 1e-3,
          .zero_gradient_samples = 3,
          .images_per_second = 100,
          .seconds =
              {.data = 1, .attack = 2, .forward_backward = 3, .communication = 4, .optimizer = 5},
          .peak_memory_bytes = std::int64_t{1} << 33};
}

inline ValidationRecord validation_record(int epoch, std::int64_t update) {
  return {.epoch = epoch,
          .update = update,
          .samples = 360,
          .clean_correct = 336,
          .clean_accuracy = 336.0 / 360,
          .clean_top5_accuracy = 0.99,
          .robust_correct = 219,
          .robust_accuracy = 219.0 / 360,
          .attack = "pgd-20",
          .average = false};
}

// Time that passes only when told.
class ManualClock {
 public:
  void advance(std::chrono::milliseconds duration) { now_ += duration; }
  [[nodiscard]] SteadyClock clock() {
    return [this] { return now_; };
  }

 private:
  SteadyTime now_{};
};

}  // namespace temper
