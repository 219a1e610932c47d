#pragma once
// Learning-rate schedules: pure functions of the progress of training.

#include <functional>
#include <vector>

namespace temper {

// Factor on the learning rate at a fraction of training in updates; `update` counts from 0, `total`
// >= 1.
struct ScheduleOptions {
  enum class Kind {
    kConstant,
    kPiecewise,   // times `factor` at each milestone
    kCosine,      // (1 + cos(pi t)) / 2 after the warm-up (Loshchilov and Hutter, "SGDR", 2017),
                  // without restarts
    kTriangular,  // linear from 0 to 1 at `peak`, then linear to 0, as in Wong et al., "Fast is
                  // better than free" (2020)
  };
  Kind kind = Kind::kConstant;
  std::vector<double> milestones{};  // in updates, increasing
  double factor = 0.1;
  double warmup = 0;  // in updates; linear from 1/warmup to 1
  double peak = 0.5;  // fraction of training
};

// The learning rate of update `update` of `total`.
[[nodiscard]] double scheduled_learning_rate(const ScheduleOptions& options,
                                             double base_learning_rate, double update,
                                             double total);

}  // namespace temper
