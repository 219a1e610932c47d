#pragma once
// What a run reports: the records of metrics.jsonl, already reduced over all ranks. Accuracies are
// fractions in [0, 1]. A value that is NaN or infinite is written as null.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace temper {

inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// Seconds spent in each phase since the last train record; mean over ranks.
struct PhaseSeconds {
  double data = 0;
  double attack = 0;
  double forward_backward = 0;
  double communication = 0;
  double optimizer = 0;
};

// One logging interval of training; means are over its samples.
struct TrainRecord {
  int epoch = 0;             // counted from 1
  std::int64_t update = 0;   // updates applied or skipped since the start of the run
  std::int64_t samples = 0;  // samples used since the start of the run
  double loss = kNotANumber;
  double clean_loss = kNotANumber;
  double robust_loss = kNotANumber;
  double clean_accuracy = kNotANumber;
  double adversarial_accuracy = kNotANumber;
  double learning_rate = kNotANumber;
  double gradient_norm = kNotANumber;  // over all parameters, of the last update
  // Samples whose image gradient was all zero, or not finite, in a step of the attack.
  double zero_gradient_samples = kNotANumber;
  double nonfinite_gradient_samples = kNotANumber;
  double images_per_second = kNotANumber;  // all ranks together
  PhaseSeconds seconds;
  std::int64_t peak_memory_bytes = 0;  // of the rank with the most
};

struct ValidationRecord {
  int epoch = 0;
  std::int64_t update = 0;
  std::int64_t samples = 0;  // evaluated, the denominator of the accuracies
  std::int64_t clean_correct = 0;
  double clean_accuracy = kNotANumber;
  std::optional<double> clean_top5_accuracy;   // from 10 classes on
  std::optional<std::int64_t> robust_correct;  // without an attack: null in the file
  std::optional<double> robust_accuracy;
  std::string attack;    // empty: no attack ran
  bool average = false;  // the weight average was evaluated
};

using EventDetail = std::variant<bool, std::int64_t, double, std::string>;

// `what`: started, resumed, preempted, saved, skipped_update, bad_sample, epoch_loaded, warning,
// finished.
struct Event {
  std::string what;
  int epoch = 0;
  std::int64_t update = 0;
  std::vector<std::pair<std::string, EventDetail>> details;
};

}  // namespace temper
