#include "temper/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "temper/core/error.h"

namespace temper {
namespace {

double factor_after_warmup(const ScheduleOptions& options, double update, double total) {
  switch (options.kind) {
    case ScheduleOptions::Kind::kConstant:
      return 1;
    case ScheduleOptions::Kind::kPiecewise: {
      const auto passed =
          std::ranges::count_if(options.milestones, [&](double at) { return update >= at; });
      return std::pow(options.factor, static_cast<double>(passed));
    }
    case ScheduleOptions::Kind::kCosine: {
      const double length = std::max(1.0, total - options.warmup);
      const double done = std::clamp((update - options.warmup) / length, 0.0, 1.0);
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
    }
    case ScheduleOptions::Kind::kTriangular: {
      const double peak = options.peak * total;
      return update < peak ? update / peak : std::max(0.0, (total - update) / (total - peak));
    }
  }
  return 1;
}

}  // namespace

double scheduled_learning_rate(const ScheduleOptions& options, double base_learning_rate,
                               double update, double total) {
  require(total >= 1, "a schedule needs at least one update, got ", total);
  if (update < options.warmup) {
    return base_learning_rate * (update + 1) / options.warmup;
  }
  return base_learning_rate * factor_after_warmup(options, update, total);
}

}  // namespace temper
