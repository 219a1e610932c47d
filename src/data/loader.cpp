#include "temper/data/loader.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

// Signals are the main thread's business: threads made while this lives block all of them, but for
// the one that asks for their stacks.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGQUIT);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// A batch that is being filled, and the failure with the lowest position in it.
struct Slot {
  HostBatch batch;
  std::size_t missing = 0;  // samples not done
  std::exception_ptr error;
  std::size_t error_position = 0;
};

}  // namespace

// Batch b is filled in slot b mod slots, from the moment that batch b - slots was handed out.
class Loader::Workers {
 public:
  Workers(const Dataset& dataset, Transform transform, const LoaderOptions& options)
      : dataset_(dataset), transform_(std::move(transform)), options_(options) {
    check_options();
    set_threads(options_.threads);
  }

  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void start(std::uint32_t epoch, std::vector<std::vector<std::uint32_t>> batches);
  [[nodiscard]] std::optional<HostBatch> next(const std::function<bool()>& give_up);
  [[nodiscard]] HostBatch empty_batch() const;
  void set_threads(int count);

  void recycle(HostBatch batch) {
    const std::lock_guard lock(mutex_);
    if (spare_.size() < slots_.size()) {
      spare_.push_back(std::move(batch));
    }
  }

  std::size_t remaining() {
    const std::lock_guard lock(mutex_);
    return batches_.size() - taken_;
  }

 private:
  struct Work {
    std::size_t batch;
    std::size_t position;
    std::uint32_t sample;
    std::uint32_t epoch;
  };

  void check_options() const;
  void work(std::size_t number);
  bool advance_to_work();
  Work take_work();
  void prepare_slot(std::size_t batch);
  void load_sample(const Work& work, HostBatch& batch) const;
  [[nodiscard]] std::size_t sample_bytes() const {
    const auto side = static_cast<std::size_t>(options_.image_size);
    return side * side * static_cast<std::size_t>(options_.channels) *
           element_size(dataset_.element_type());
  }
  Slot& slot_of(std::size_t batch) { return slots_[batch % slots_.size()]; }

  const Dataset& dataset_;
  const Transform transform_;
  const LoaderOptions options_;

  std::mutex mutex_;
  std::condition_variable work_changed_;  // there is work, or the end
  std::condition_variable batch_done_;    // a batch is complete, or no sample is in work
  bool stopping_ = false;
  std::uint32_t epoch_ = 0;
  std::vector<std::vector<std::uint32_t>> batches_;
  std::size_t taken_ = 0;          // batches handed out
  std::size_t next_batch_ = 0;     // next sample to load
  std::size_t next_position_ = 0;  // in next_batch_
  int in_work_ = 0;                // samples being loaded
  std::vector<Slot> slots_;
  std::vector<HostBatch> spare_;
  std::size_t active_ = 0;  // threads with a lower number load, the others are parked
  std::vector<std::thread> threads_;
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

void Loader::Workers::start(std::uint32_t epoch, std::vector<std::vector<std::uint32_t>> batches) {
  std::size_t largest = 0;
  for (const auto& batch : batches) {
    largest = std::max(largest, batch.size());
  }
  const std::uint64_t bytes = std::max<std::uint64_t>(1, largest * sample_bytes());
  if (bytes > options_.memory_limit) {
    throw ConfigError(concat("one batch of ", largest, " samples takes ", bytes,
                             " bytes, more than data.memory_limit of ", options_.memory_limit,
                             "; raise it or lower the batch size"));
  }
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(options_.prefetch_batches), options_.memory_limit / bytes));
  {
    std::unique_lock lock(mutex_);
    batches_.clear();  // nothing new is begun
    taken_ = next_batch_ = next_position_ = 0;
    batch_done_.wait(lock, [this] { return in_work_ == 0; });
    slots_.clear();
    slots_.resize(count);
    spare_.resize(std::min(spare_.size(), count));
    epoch_ = epoch;
    batches_ = std::move(batches);
  }
  work_changed_.notify_all();
}

// Threads are made when they are first wanted, and parked ones stay.
void Loader::Workers::set_threads(int count) {
  require(count >= 1, "a loader needs at least one thread, not ", count);
  {
    const std::lock_guard lock(mutex_);
    active_ = static_cast<std::size_t>(count);
    const BlockedSignals blocked;
    try {
      while (threads_.size() < active_) {
        threads_.emplace_back([this, number = threads_.size()] { work(number); });
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

// Moves on to the next sample that may be loaded now; false when there is none.
bool Loader::Workers::advance_to_work() {
  while (next_batch_ < batches_.size() && next_position_ == batches_[next_batch_].size()) {
    ++next_batch_;
    next_position_ = 0;
  }
  return next_batch_ < batches_.size() && next_batch_ < taken_ + slots_.size();
}

Loader::Workers::Work Loader::Workers::take_work() {
  if (next_position_ == 0) {
    prepare_slot(next_batch_);
  }
  const Work work{next_batch_, next_position_, batches_[next_batch_][next_position_], epoch_};
  ++next_position_;
  ++in_work_;
  return work;
}

void Loader::Workers::prepare_slot(std::size_t batch) {
  Slot& slot = slot_of(batch);
  if (!spare_.empty()) {
    slot.batch = std::move(spare_.back());
    spare_.pop_back();
  }
  const std::size_t count = batches_[batch].size();
  slot.missing = count;
  slot.error = nullptr;
  slot.batch.element_type = dataset_.element_type();
  slot.batch.count = static_cast<std::int64_t>(count);
  slot.batch.height = slot.batch.width = options_.image_size;
  slot.batch.channels = options_.channels;
  slot.batch.pixels.resize(count * sample_bytes());
  slot.batch.labels.resize(count);
  slot.batch.samples.assign(batches_[batch].begin(), batches_[batch].end());
}

void Loader::Workers::work(std::size_t number) {
  std::unique_lock lock(mutex_);
  while (true) {
    work_changed_.wait(lock, [&] { return stopping_ || (number < active_ && advance_to_work()); });
    if (stopping_) {
      return;
    }
    std::exception_ptr error;
    Slot* slot = nullptr;
    Work work{};
    try {
      work = take_work();
    } catch (...) {
      // The batch's memory could not be had; its consumer learns of it.
      slot = &slot_of(next_batch_);
      slot->missing = 0;
      slot->error = std::current_exception();
      slot->error_position = 0;
      next_position_ = batches_[next_batch_].size();
      batch_done_.notify_all();
      continue;
    }
    slot = &slot_of(work.batch);
    lock.unlock();
    try {
      load_sample(work, slot->batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error != nullptr && (slot->error == nullptr || work.position < slot->error_position)) {
      slot->error = error;
      slot->error_position = work.position;
    }
    error = nullptr;
    --in_work_;
    if (--slot->missing == 0 || in_work_ == 0) {
      batch_done_.notify_all();
    }
  }
}

void Loader::Workers::load_sample(const Work& work, HostBatch& batch) const {
  Image image = dataset_.load(work.sample);
  try {
    SampleRandom random(
        RandomStream{.seed = options_.seed, .purpose = options_.purpose, .index = work.epoch},
        work.sample);
    image = transform_.apply(std::move(image), random);
    if (image.height != options_.image_size || image.width != options_.image_size ||
        image.channels != options_.channels) {
      throw DataError(concat("is ", image.height, " x ", image.width, " x ", image.channels,
                             " after the transform, expected ", options_.image_size, " x ",
                             options_.image_size, " x ", options_.channels));
    }
  } catch (const DataError& error) {
    throw DataError(concat(dataset_.sample_name(work.sample), ": ", error.what()));
  }
  require(image.element_type() == dataset_.element_type(), "element type of ",
          dataset_.sample_name(work.sample));
  const std::size_t bytes = sample_bytes();
  std::visit(
      [&](const auto& pixels) {
        std::memcpy(batch.pixels.data() + work.position * bytes, pixels.data(), bytes);
      },
      image.pixels);
  batch.labels[work.position] = dataset_.labels()[work.sample];
}

HostBatch Loader::Workers::empty_batch() const {
  HostBatch batch;
  batch.element_type = dataset_.element_type();
  batch.height = batch.width = options_.image_size;
  batch.channels = options_.channels;
  return batch;
}

std::optional<HostBatch> Loader::Workers::next(const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  require(taken_ < batches_.size(), "all ", batches_.size(), " batches have been taken");
  const std::size_t index = taken_;
  HostBatch batch = empty_batch();
  std::exception_ptr error;
  if (!batches_[index].empty()) {
    Slot& slot = slot_of(index);
    const auto done = [&] {
      const bool begun_all =
          next_batch_ > index || (next_batch_ == index && next_position_ == batches_[index].size());
      return begun_all && slot.missing == 0;
    };
    constexpr std::chrono::milliseconds kPatience{100};
    while (!batch_done_.wait_for(lock, kPatience, done)) {
      if (give_up && give_up()) {
        return std::nullopt;
      }
    }
    batch = std::move(slot.batch);
    slot.batch = HostBatch{};
    error = std::exchange(slot.error, nullptr);
  }
  ++taken_;
  lock.unlock();
  work_changed_.notify_all();
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
  return batch;
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

}  // namespace temper
