#pragma once
// What the ranks send to each other: every collective as it is handed to the process group, the
// buckets of the gradient reduction included, which do not pass through Communicator.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace temper {

// One collective of this rank. Ranks that work together have equal records in equal order.
struct CollectiveRecord {
  std::int64_t sequence = 0;  // counts from 0 in each communicator
  // all_reduce_sum, all_reduce_max, all_reduce, broadcast, all_gather
  std::string operation{};
  std::string dtype{};                // float64, as PyTorch names it
  std::int64_t numel = 0;             // elements that this rank passes in
  std::vector<std::int64_t> shape{};  // of the first tensor; nearly always there is one alone
  int root = -1;                      // of a broadcast
  std::string purpose{};              // "gradient bucket 3"; may be empty
  std::int64_t update = 0;            // what the rank works on, and in which phase
  std::string phase{};

  friend bool operator==(const CollectiveRecord&, const CollectiveRecord&) = default;
};

// "#3 all_reduce_sum float64 [6, 7] for update summary at update 12, phase communication"
[[nodiscard]] std::string to_string(const CollectiveRecord& record);

// Sees each collective of a communicator before it starts; an exception keeps it from starting.
// Calls come one at a time, in the order of the collectives, from the thread that issues them: on
// CUDA also from autograd's threads. A collective of the same communicator must not be issued in
// it.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  virtual void before_collective(const CollectiveRecord& record) = 0;
};

// Keeps the records. Threads may share one object.
class CollectiveLog final : public CollectiveObserver {
 public:
  void before_collective(const CollectiveRecord& record) override;

  [[nodiscard]] std::size_t size() const;
  // The records from place `first` on.
  [[nodiscard]] std::vector<CollectiveRecord> records(std::size_t first = 0) const;

 private:
  mutable std::mutex mutex_;
  std::vector<CollectiveRecord> records_;
};

}  // namespace temper
