#include "temper/data/loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "data/loader_workers.h"
#include "temper/core/error.h"

namespace temper {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

void Loader::Workers::check_options() const {
  if (options_.threads < 1 || options_.prefetch_batches < 1) {
    throw ConfigError(concat("the loader needs at least one thread and one batch ahead, not ",
                             options_.threads, " and ", options_.prefetch_batches));
  }
  if (options_.image_size < 1) {
    throw ConfigError(concat("data.image_size is ", options_.image_size, ", expected at least 1"));
  }
  if (options_.channels != dataset_.channels()) {
    throw ConfigError(concat("data.channels is ", options_.channels, ", but the data set gives ",
                             dataset_.channels()));
  }
  transform_.check_element_type(dataset_.element_type());
}

// Batches ahead. The one in the caller's hands counts as well.
std::size_t Loader::Workers::slots_for(const BatchRing::Batches& batches) {
  std::size_t largest = 0;
  for (const auto& batch : batches) {
    largest = std::max(largest, batch.size());
  }
  const BatchShape shape{dataset_.element_type(), options_.image_size, options_.channels, {}};
  const std::uint64_t bytes = std::max<std::uint64_t>(1, largest * shape.sample_bytes());
  const std::uint64_t allowances = parts_.allowance * static_cast<std::uint64_t>(options_.threads);
  const std::uint64_t room = options_.memory_limit - allowances;
  if (2 * bytes > room) {
    throw ConfigError(concat("two batches of ", largest, " samples take ", 2 * bytes,
                             " bytes, more than ", options_.memory_limit,
                             " bytes, this loader's share of data.memory_limit, hold; raise it or "
                             "lower the batch size"));
  }
  // Half of the rest is for what is read and decoded, and for the cache.
  const std::uint64_t more = (room - 2 * bytes) / 2 / bytes;
  const std::uint64_t slots =
      1 + std::min<std::uint64_t>(static_cast<std::uint64_t>(options_.prefetch_batches) - 1, more);
  budget_.set_fixed(allowances + (slots + 1) * bytes);
  return slots;
}

void Loader::Workers::start(std::uint32_t epoch, BatchRing::Batches batches) {
  const std::size_t slots = slots_for(batches);
  {
    std::unique_lock lock(mutex_);
    ring_.stop();
    drop_ahead();
    batch_done_.wait(lock, [this] { return ring_.in_work() == 0; });
    ring_.start(epoch, std::move(batches), slots);
    statistics_ = {};
    queued_sum_ = 0;
    started_ = last_taken_ = Clock::now();
  }
  work_changed_.notify_all();
  read_changed_.notify_all();
}

std::optional<HostBatch> Loader::Workers::next(const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  require(ring_.remaining() > 0, "all batches have been taken");
  const auto asked = Clock::now();
  const bool first = statistics_.batches == 0;
  const auto queued = static_cast<double>(ring_.ready());
  constexpr std::chrono::milliseconds kPatience{100};
  while (!batch_done_.wait_for(lock, kPatience, [&] { return ring_.next_is_ready(); })) {
    if (give_up && give_up()) {
      return std::nullopt;
    }
  }
  BatchRing::Taken taken = ring_.take();
  last_taken_ = Clock::now();
  if (first) {
    statistics_.first_batch_seconds = seconds_between(started_, last_taken_);
  } else {
    statistics_.wait_seconds += seconds_between(asked, last_taken_);
    queued_sum_ += queued;
  }
  ++statistics_.batches;
  statistics_.samples += static_cast<std::uint64_t>(taken.batch.count);
  lock.unlock();
  work_changed_.notify_all();
  read_changed_.notify_all();
  if (taken.error != nullptr) {
    std::rethrow_exception(taken.error);
  }
  return std::move(taken.batch);
}

LoaderStatistics Loader::Workers::statistics() {
  const std::lock_guard lock(mutex_);
  LoaderStatistics result = statistics_;
  result.seconds = seconds_between(started_, last_taken_);
  result.queued_batches =
      result.batches > 1 ? queued_sum_ / static_cast<double>(result.batches - 1) : 0;
  result.threads = static_cast<int>(active_);
  result.peak_bytes = budget_.peak();
  return result;
}

Loader::Loader(const Dataset& dataset, Transform transform, const LoaderOptions& options)
    : workers_(std::make_unique<Workers>(dataset, std::move(transform), options)) {}
Loader::~Loader() = default;

void Loader::start(std::uint32_t epoch, std::vector<std::vector<std::uint32_t>> batches) {
  workers_->start(epoch, std::move(batches));
}
std::size_t Loader::remaining() const { return workers_->remaining(); }
HostBatch Loader::next() { return *workers_->next({}); }
std::optional<HostBatch> Loader::next_unless(const std::function<bool()>& give_up) {
  return workers_->next(give_up);
}
HostBatch Loader::empty_batch() const { return workers_->empty_batch(); }
void Loader::set_threads(int count) { workers_->set_threads(count); }
void Loader::recycle(HostBatch batch) { workers_->recycle(std::move(batch)); }
LoaderStatistics Loader::statistics() const { return workers_->statistics(); }

}  // namespace temper
