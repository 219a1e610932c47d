#include "data/loader_workers.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "data/loader_threads.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

// A share of the limit, so that small limits still leave room for batches.
std::uint64_t thread_allowance(const LoaderOptions& options) {
  constexpr std::uint64_t kAllowance = std::uint64_t{1} << 20;
  const auto threads = static_cast<std::uint64_t>(std::max(1, options.threads));
  return std::min(kAllowance, options.memory_limit / (8 * threads));
}

}  // namespace

Loader::Workers::Workers(const Dataset& dataset, Transform transform, const LoaderOptions& options)
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

Loader::Workers::~Workers() {
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

// Samples that readers have taken are given up; the lock is held.
void Loader::Workers::drop_ahead() {
  for (SampleTask& task : ahead_) {
    ring_.done(task.work, {});
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
std::optional<SampleTask> Loader::Workers::take_work() {
  if (!ahead_.empty()) {
    std::optional<SampleTask> task = std::move(ahead_.front());
    ahead_.pop_front();
    return task;
  }
  const std::optional<SampleWork> work = ring_.take_work();
  return work ? std::optional<SampleTask>(SampleTask{.work = *work}) : std::nullopt;
}

void Loader::Workers::work(std::size_t number) {
  SampleWorker worker(parts_, options_);
  std::unique_lock lock(mutex_);
  while (true) {
    work_changed_.wait(lock, [&] {
      return stopping_ || (number < active_ && (!ahead_.empty() || ring_.has_work()));
    });
    if (stopping_) {
      return;
    }
    std::optional<SampleTask> task = take_work();
    if (!task) {
      batch_done_.notify_all();  // its consumer learns that there is no memory for it
      continue;
    }
    std::byte* place = ring_.place_of(task->work);
    lock.unlock();
    if (task->sample != nullptr) {
      read_changed_.notify_one();  // there is room for another one
    }
    const auto begin = Clock::now();
    SampleOutcome outcome = worker.run(*task, place);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const SampleWork done = task->work;
    const SampleCost cost = task->cost;
    const bool was_read_here = task->sample == nullptr;
    task.reset();
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
    SampleTask task{.work = *work};
    ++being_read_;
    lock.unlock();
    try {
      task.sample = SampleLoader::read_ahead(parts_, work->sample, task.cost);
    } catch (...) {
      task.error = std::current_exception();
    }
    lock.lock();
    --being_read_;
    ahead_.push_back(std::move(task));
    work_changed_.notify_all();
  }
}

// For a thread that waits for memory: gives up what can be read again.
void Loader::Workers::reclaim(std::uint64_t bytes) {
  if (cache_) {
    cache_->drop(bytes);
  }
  const std::lock_guard lock(mutex_);
  for (SampleTask& task : ahead_) {
    task.sample.reset();
  }
}

}  // namespace temper
