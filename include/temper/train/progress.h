#pragma once
// How far a run is, in updates and samples over all ranks; part of every checkpoint.

#include <cstdint>
#include <limits>

#include "temper/core/units.h"

namespace temper {

struct Progress {
  std::int64_t update = 0;   // applied or skipped
  std::int64_t samples = 0;  // used, over all ranks
  std::int64_t skipped_in_a_row = 0;
  std::int64_t validated_update = 0;  // of the last complete validation
  double best_metric = std::numeric_limits<double>::quiet_NaN();
  std::int64_t validations_without_best = 0;  // in a row
  std::int64_t checked_update = 0;            // of the last check for catastrophic overfitting
  double checked_accuracy = std::numeric_limits<double>::quiet_NaN();  // of the last good one
};

// Fixed lengths of a run.
struct RunShape {
  std::int64_t epochs = 1;
  std::int64_t updates_per_epoch = 1;
  std::int64_t samples_per_epoch = 1;
  std::int64_t global_batch_size = 1;  // samples of an update but an epoch's last one
  std::int64_t max_updates = 0;        // 0: none
  std::int64_t extra_batch_size = 0;   // of them from extra data, which an epoch does not count
  std::int64_t updates_per_batch = 1;  // replays of each batch; they count as updates of an epoch

  [[nodiscard]] std::int64_t total_updates() const { return epochs * updates_per_epoch; }
  // Updates after which the run ends.
  [[nodiscard]] std::int64_t last_update() const {
    return max_updates > 0 && max_updates < total_updates() ? max_updates : total_updates();
  }
  // A length of training in updates; may be a fraction.
  [[nodiscard]] double in_updates(const Period& period) const;
  // Whether a multiple of `period` lies in (update - 1, update]; false for a zero period and update
  // 0.
  [[nodiscard]] bool is_due(const Period& period, std::int64_t update) const;
};

// The same place of training counted in updates of another shape: the same epoch, and in it the
// last whole update that ends no later, so that samples may repeat but none is left out. Unchanged
// when the updates hold the same samples.
[[nodiscard]] Progress convert_progress(const Progress& progress, const RunShape& from,
                                        const RunShape& to);

}  // namespace temper
