#pragma once
// The threads behind a Loader and what they share.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch_ring.h"
#include "data/memory_budget.h"
#include "data/read_ahead.h"
#include "data/sample_cache.h"
#include "data/sample_worker.h"
#include "temper/data/loader.h"

namespace temper {

class Loader::Workers {
 public:
  Workers(const Dataset& dataset, Transform transform, const LoaderOptions& options);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void start(std::uint32_t epoch, BatchRing::Batches batches);
  [[nodiscard]] std::optional<HostBatch> next(const std::function<bool()>& give_up);
  [[nodiscard]] HostBatch empty_batch() const { return ring_.empty_batch(); }
  void set_threads(int count);
  [[nodiscard]] LoaderStatistics statistics();

  void recycle(HostBatch batch) {
    const std::lock_guard lock(mutex_);
    ring_.recycle(std::move(batch));
  }

  std::size_t remaining() {
    const std::lock_guard lock(mutex_);
    return ring_.remaining();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void check_options() const;
  [[nodiscard]] std::size_t slots_for(const BatchRing::Batches& batches);
  void work(std::size_t number);
  void read(std::size_t number);
  void adapt_readers(double read_seconds, double load_seconds);
  void start_readers();
  void drop_ahead();
  void reclaim(std::uint64_t bytes);
  [[nodiscard]] std::optional<SampleTask> take_work();

  const Dataset& dataset_;
  const Transform transform_;
  const LoaderOptions options_;
  MemoryBudget budget_;
  std::optional<SampleCache> cache_;
  SampleLoaderParts parts_;

  std::mutex mutex_;
  std::condition_variable work_changed_;  // there is work for threads that decode, or the end
  std::condition_variable read_changed_;  // likewise for readers, of which there may be many
  std::condition_variable batch_done_;    // a batch is complete, or no sample is in work
  bool stopping_ = false;
  BatchRing ring_;
  std::deque<SampleTask> ahead_;
  std::size_t being_read_ = 0;  // by readers
  ReadAheadControl control_;
  std::size_t active_ = 0;  // threads with a lower number load, the others are parked
  std::vector<std::thread> threads_;
  std::vector<std::thread> readers_;

  LoaderStatistics statistics_;  // since start()
  double queued_sum_ = 0;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_taken_ = started_;
};

}  // namespace temper
