#pragma once
// What the training learns of its data: replaced samples, and whether the loader keeps up. The
// functions are collectives where they say so; all ranks see the same.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "temper/data/loader.h"
#include "temper/dist/communicator.h"
#include "temper/metrics/record.h"

namespace temper {

class DataWatch {
 public:
  using Details = std::vector<std::pair<std::string, EventDetail>>;

  // `largest_share`: of an epoch's `samples` that may be bad.
  DataWatch(Communicator& communicator, double largest_share, std::int64_t samples);

  // What this rank has loaded for an update. Counts from there on are of `epoch`.
  void note(std::int64_t update, const std::vector<BadSampleNote>& bad);
  // Of this rank, for an update.
  [[nodiscard]] std::int64_t bad_samples(std::int64_t update) const;

  // All ranks know that `count` samples of the update were replaced; returns what the events say of
  // each. Throws AgreedError when the epoch has had too many. A collective.
  [[nodiscard]] std::vector<Details> take_bad_samples(std::int64_t update, int epoch,
                                                      std::int64_t count);
  // Drops the notes of updates before that one.
  void forget_before(std::int64_t update);

  // Sums and means over the ranks, for an event. A collective.
  [[nodiscard]] static Details summarize(Communicator& communicator, LoaderStatistics& statistics);

 private:
  struct Note {
    std::int64_t update;
    BadSampleNote bad;
  };

  Communicator& communicator_;
  const double largest_share_;
  const std::int64_t samples_;
  std::deque<Note> notes_;
  int epoch_ = -1;
  std::int64_t bad_in_epoch_ = 0;
};

}  // namespace temper
