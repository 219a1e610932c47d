#include "temper/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "data/batch_ring.h"
#include "data/loader_threads.h"
#include "data/memory_budget.h"
#include "data/read_ahead.h"
#include "data/sample_cache.h"
#include "data/sample_loader.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// A share of the limit, so that small limits still leave room for batches.
std::uint64_t thread_allowance(const LoaderOptions& options) {
  constexpr std::uint64_t kAllowance = std::uint64_t{1} << 20;
  const auto threads = static_cast<std::uint64_t>(std::max(1, options.threads));
  return std::min(kAllowance, options.memory_limit / (8 * threads));
}

bool is_bad_sample(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DataError&) {
    return true;
  } catch (const SystemError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

class Loader::Workers {
 public:
  Workers(const Dataset& dataset, Transform transform, const LoaderOptions& options)
      : dataset_(dataset),
        transform_(std::move(transform)),
        options_(options),
        budget_(options.memory_limit),
        parts_{dataset_, transform_, options_.image_size,
               budget_,  nullptr,    thread_allowance(options)},
        ring_({dataset.element_type(), options.image_size, options.channels, options.allocate}) {
    check_options();
    if (options_.cache) {
      cache_.emplace(dataset_.size(), budget_, options_.memory_limit / 8);
      parts_.cache = &*cache_;
    }
    budget_.set_reclaim([this](std::uint64_t bytes) { reclaim(bytes); });
    set_threads(options_.threads);
  }

  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    budget_.close();
    work_changed_.notify_all();
    read_changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
    for (std::thread& thread : readers_) {
      thread.join();
    }
  }
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
  // A sample that a reader has taken for the threads that decode.
  struct Ahead {
    SampleWork work;
    std::unique_ptr<FetchedSample> sample;  // null: not read
    std::exception_ptr error;
    SampleCost cost;
  };

  void check_options() const;
  [[nodiscard]] std::size_t slots_for(const BatchRing::Batches& batches);
  void work(std::size_t number);
  void read(std::size_t number);
  void adapt_readers(double read_seconds, double load_seconds);
  void start_readers();
  void drop_ahead();
  void reclaim(std::uint64_t bytes);
  [[nodiscard]] std::optional<Ahead> take_work();
  SampleOutcome load(SampleLoader& loader, Ahead& ahead, std::byte* out);
  void replace(SampleLoader& loader, const SampleWork& work, std::byte* out,
               SampleOutcome& outcome);
  [[nodiscard]] SampleRandom random_of(const SampleWork& work, Purpose purpose) const {
    return {RandomStream{.seed = options_.seed, .purpose = purpose, .index = work.epoch},
            work.sample};
  }

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
  std::deque<Ahead> ahead_;
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
                             " bytes, more than data.memory_limit of ", options_.memory_limit,
                             " leaves; raise it or lower the batch size"));
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

// Samples that readers have taken are given up; the lock is held.
void Loader::Workers::drop_ahead() {
  for (Ahead& ahead : ahead_) {
    ring_.done(ahead.work, {});
  }
  ahead_.clear();
}

// Threads are made when they are first wanted, and parked ones stay.
void Loader::Workers::set_threads(int count) {
  require(count >= 1, "a loader needs at least one thread, not ", count);
  {
    const std::lock_guard lock(mutex_);
    active_ = static_cast<std::size_t>(count);
    try {
      while (threads_.size() < active_) {
        threads_.push_back(
            start_loader_thread("temper-load", [this, number = threads_.size()] { work(number); }));
      }
    } catch (const std::system_error& error) {
      if (threads_.empty()) {
        throw SystemError("cannot start a loader thread", error.code().value());
      }
      log_warning("the loader goes on with ", threads_.size(), " instead of ", count,
                  " threads: ", error.what());
      active_ = threads_.size();
    }
  }
  work_changed_.notify_all();
}

// What readers have got, else the next sample; the lock is held.
std::optional<Loader::Workers::Ahead> Loader::Workers::take_work() {
  if (!ahead_.empty()) {
    std::optional<Ahead> ahead = std::move(ahead_.front());
    ahead_.pop_front();
    return ahead;
  }
  const std::optional<SampleWork> work = ring_.take_work();
  return work ? std::optional<Ahead>({*work, nullptr, nullptr, {}}) : std::nullopt;
}

void Loader::Workers::work(std::size_t number) {
  SampleLoader loader(parts_);
  std::unique_lock lock(mutex_);
  while (true) {
    work_changed_.wait(lock, [&] {
      return stopping_ || (number < active_ && (!ahead_.empty() || ring_.has_work()));
    });
    if (stopping_) {
      return;
    }
    std::optional<Ahead> ahead = take_work();
    if (!ahead) {
      batch_done_.notify_all();  // its consumer learns that there is no memory for it
      continue;
    }
    std::byte* place = ring_.place_of(ahead->work);
    lock.unlock();
    if (ahead->sample != nullptr) {
      read_changed_.notify_one();  // there is room for another one
    }
    const auto begin = Clock::now();
    SampleOutcome outcome = load(loader, *ahead, place);
    const double seconds = seconds_between(begin, Clock::now());
    const SampleWork done = ahead->work;
    const SampleCost cost = ahead->cost;
    const bool was_read_here = ahead->sample == nullptr;
    ahead.reset();
    lock.lock();
    statistics_.load_seconds += seconds;
    statistics_.bytes_read += cost.bytes_read;
    statistics_.read_seconds += cost.read_seconds;
    statistics_.bad_samples += outcome.note ? 1 : 0;
    adapt_readers(cost.read_seconds, seconds - (was_read_here ? cost.read_seconds : 0));
    if (ring_.done(done, std::move(outcome)) || ring_.in_work() == 0) {
      batch_done_.notify_all();
    }
  }
}

SampleOutcome Loader::Workers::load(SampleLoader& loader, Ahead& ahead, std::byte* out) {
  const SampleWork& work = ahead.work;
  SampleOutcome outcome{.error = ahead.error, .note = {}, .label = dataset_.labels()[work.sample]};
  if (outcome.error == nullptr) {
    try {
      const SampleCost cost =
          loader.load(work.sample, random_of(work, options_.purpose), ahead.sample.get(), out);
      ahead.cost.bytes_read += cost.bytes_read;
      ahead.cost.read_seconds += cost.read_seconds;
      return outcome;
    } catch (...) {
      outcome.error = std::current_exception();
    }
  }
  if (options_.on_bad_sample == BadSamplePolicy::kError || !is_bad_sample(outcome.error)) {
    return outcome;
  }
  outcome.note = {.sample = work.sample, .error = text_of(outcome.error), .replaced_by = {}};
  if (options_.on_bad_sample == BadSamplePolicy::kReplace) {
    replace(loader, work, out, outcome);
  }
  return outcome;
}

void Loader::Workers::replace(SampleLoader& loader, const SampleWork& work, std::byte* out,
                              SampleOutcome& outcome) {
  constexpr int kTries = 20;
  SampleRandom choice = random_of(work, Purpose::kReplacement);
  for (int i = 0; i < kTries; ++i) {
    const auto other = static_cast<std::uint32_t>(choice.below(dataset_.size()));
    try {
      loader.load(other, random_of(work, options_.purpose), nullptr, out);
    } catch (...) {
      if (!is_bad_sample(std::current_exception())) {
        outcome = {.error = std::current_exception(), .note = {}, .label = outcome.label};
        return;
      }
      continue;
    }
    outcome.note->replaced_by = other;
    outcome.label = dataset_.labels()[other];
    outcome.error = nullptr;
    return;
  }
  outcome.note.reset();
  outcome.error =
      std::make_exception_ptr(DataError(concat(text_of(outcome.error), "; none of ", kTries,
                                               " samples that might replace it is any better")));
}

// Called with the lock.
void Loader::Workers::adapt_readers(double read_seconds, double load_seconds) {
  control_.note(read_seconds, load_seconds, active_);
  if (control_.is_active() && readers_.size() < control_.readers()) {
    start_readers();
  }
}

void Loader::Workers::start_readers() {
  try {
    while (readers_.size() < control_.readers()) {
      readers_.push_back(
          start_loader_thread("temper-read", [this, number = readers_.size()] { read(number); }));
    }
  } catch (const std::system_error&) {
    control_.limit_readers(readers_.size());  // those that there are do
  }
  read_changed_.notify_all();
}

void Loader::Workers::read(std::size_t number) {
  std::unique_lock lock(mutex_);
  while (true) {
    read_changed_.wait(lock, [&] {
      return stopping_ ||
             (control_.is_active() && number < control_.readers() &&
              ahead_.size() + being_read_ < 2 * control_.readers() && ring_.has_work());
    });
    if (stopping_) {
      return;
    }
    const std::optional<SampleWork> work = ring_.take_work();
    if (!work) {
      batch_done_.notify_all();
      continue;
    }
    Ahead ahead{*work, nullptr, nullptr, {}};
    ++being_read_;
    lock.unlock();
    try {
      ahead.sample = SampleLoader::read_ahead(parts_, work->sample, ahead.cost);
    } catch (...) {
      ahead.error = std::current_exception();
    }
    lock.lock();
    --being_read_;
    ahead_.push_back(std::move(ahead));
    work_changed_.notify_all();
  }
}

// For a thread that waits for memory: gives up what can be read again.
void Loader::Workers::reclaim(std::uint64_t bytes) {
  if (cache_) {
    cache_->drop(bytes);
  }
  const std::lock_guard lock(mutex_);
  for (Ahead& ahead : ahead_) {
    ahead.sample.reset();
  }
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
