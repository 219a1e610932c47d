#include "temper/train/progress.h"

#include <algorithm>
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

Progress convert_progress(const Progress& progress, const RunShape& from, const RunShape& to) {
  if (from.updates_per_epoch == to.updates_per_epoch &&
      from.global_batch_size == to.global_batch_size &&
      from.extra_batch_size == to.extra_batch_size &&
      from.updates_per_batch == to.updates_per_batch) {
    return progress;
  }
  const std::int64_t epoch = progress.update / from.updates_per_epoch;
  const auto own = [](const RunShape& shape) {
    return shape.global_batch_size - shape.extra_batch_size;
  };
  const std::int64_t used =
      progress.update % from.updates_per_epoch / from.updates_per_batch * own(from);
  const std::int64_t batches = to.updates_per_epoch / to.updates_per_batch;
  const auto moved = [&](std::int64_t& update, std::int64_t to_update) {
    update = update == progress.update ? to_update : 0;
  };
  Progress converted = progress;
  converted.update =
      epoch * to.updates_per_epoch + std::min(used / own(to), batches - 1) * to.updates_per_batch;
  moved(converted.validated_update, converted.update);
  moved(converted.checked_update, converted.update);
  return converted;
}

}  // namespace temper
