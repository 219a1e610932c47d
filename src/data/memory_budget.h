#pragma once
// Bytes that the threads of a loader share. A thread waits for memory only while it holds none, and
// what is held without being in work can be reclaimed, so that every wait ends.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace temper {

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Asked for memory that can be had back at once; called without a lock. Set before any use.
  void set_reclaim(std::function<void(std::uint64_t bytes)> reclaim) {
    reclaim_ = std::move(reclaim);
  }

  // A part that never waits, e.g. queued batches: replaces the one set before.
  void set_fixed(std::uint64_t bytes);

  // Takes the bytes if they are there now and `spare` more are left, and nobody waits.
  [[nodiscard]] bool try_take(std::uint64_t bytes, std::uint64_t spare = 0);
  // Waits for the bytes, first come, first served. False: more than can ever be had, or closed.
  [[nodiscard]] bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  // Wakes all that wait; take() fails from now on.
  void close();

  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  // What can ever be taken.
  [[nodiscard]] std::uint64_t room() const;
  // Most bytes that were in use together.
  [[nodiscard]] std::uint64_t peak() const;

 private:
  void add(std::uint64_t bytes);

  const std::uint64_t limit_;
  std::function<void(std::uint64_t)> reclaim_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t fixed_ = 0;
  std::uint64_t used_ = 0;  // beside the fixed part
  std::uint64_t peak_ = 0;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t served_ = 0;
  bool closed_ = false;
};

// What one owner holds of a budget.
class MemoryLease {
 public:
  explicit MemoryLease(MemoryBudget& budget) : budget_(&budget) {}
  ~MemoryLease() { shrink(0); }
  MemoryLease(MemoryLease&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryLease& operator=(MemoryLease&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Whether it holds `bytes` now.
  [[nodiscard]] bool try_grow(std::uint64_t bytes) {
    if (bytes > bytes_) {
      if (!budget_->try_take(bytes - bytes_)) {
        return false;
      }
      bytes_ = bytes;
    }
    return true;
  }
  // Gives all back and waits for `bytes`; see MemoryBudget::take.
  [[nodiscard]] bool replace(std::uint64_t bytes) {
    shrink(0);
    if (!budget_->take(bytes)) {
      return false;
    }
    bytes_ = bytes;
    return true;
  }
  void shrink(std::uint64_t bytes) {
    if (bytes < bytes_) {
      budget_->give_back(bytes_ - bytes);
      bytes_ = bytes;
    }
  }

 private:
  MemoryBudget* budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace temper
