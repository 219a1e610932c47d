#include "temper/train/progress.h"

#include <cmath>

namespace temper {

double RunShape::in_updates(const Period& period) const {
  switch (period.unit) {
    case Period::Unit::kEpochs:
      return period.value * static_cast<double>(updates_per_epoch);
    case Period::Unit::kSamples:
      return period.value * static_cast<double>(updates_per_epoch) /
             static_cast<double>(samples_per_epoch);
    case Period::Unit::kUpdates:
      break;
  }
  return period.value;
}

bool RunShape::is_due(const Period& period, std::int64_t update) const {
  if (period.is_zero() || update <= 0) {
    return false;
  }
  constexpr double kRounding = 1e-9;  // a third of an epoch, three times, is an epoch
  const double length = in_updates(period);
  const auto multiples = [&](std::int64_t at) {
    return std::floor(static_cast<double>(at) / length + kRounding);
  };
  return multiples(update) > multiples(update - 1);
}

}  // namespace temper
