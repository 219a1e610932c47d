#pragma once
// Stored samples that stay in memory after their first use. Every sample is used once an epoch, so
// the ones that came first stay, until their memory is wanted for something else.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "data/memory_budget.h"
#include "temper/data/dataset.h"

namespace temper {

class SampleCache {
 public:
  // Leaves at least `spare` bytes of the budget to others.
  SampleCache(std::size_t samples, MemoryBudget& budget, std::uint64_t spare);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // The functions may be called from any thread.
  struct Entry {
    std::unique_ptr<std::uint8_t[]> memory;
    StoredSample sample;  // in `memory`
    std::uint64_t bytes = 0;
  };
  // Null when it is not kept. Stays valid as long as the caller holds it.
  [[nodiscard]] std::shared_ptr<const Entry> find(std::uint32_t sample) const;
  // Keeps a copy if there is room.
  void offer(std::uint32_t sample, const StoredSample& stored);
  // Drops entries until about so many bytes are free again.
  void drop(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  MemoryBudget& budget_;
  const std::uint64_t spare_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Entry>> entries_;
  std::size_t next_drop_ = 0;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace temper
