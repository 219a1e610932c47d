#include "data/memory_budget.h"

#include <algorithm>

namespace temper {

void MemoryBudget::set_fixed(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  fixed_ = bytes;
  peak_ = std::max(peak_, fixed_ + used_);
  changed_.notify_all();
}

void MemoryBudget::add(std::uint64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, fixed_ + used_);
}

bool MemoryBudget::try_take(std::uint64_t bytes, std::uint64_t spare) {
  const std::lock_guard lock(mutex_);
  if (closed_ || served_ != next_ticket_ || fixed_ + used_ + bytes + spare > limit_) {
    return false;
  }
  add(bytes);
  return true;
}

bool MemoryBudget::take(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  changed_.wait(lock, [&] { return closed_ || served_ == ticket; });
  const auto fits = [&] { return fixed_ + used_ + bytes <= limit_; };
  if (!fits() && reclaim_ && !closed_) {
    lock.unlock();
    reclaim_(bytes);
    lock.lock();
  }
  changed_.wait(lock, [&] { return closed_ || fixed_ + bytes > limit_ || fits(); });
  ++served_;
  changed_.notify_all();
  if (closed_ || !fits()) {
    return false;
  }
  add(bytes);
  return true;
}

void MemoryBudget::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  changed_.notify_all();
}

void MemoryBudget::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::uint64_t MemoryBudget::room() const {
  const std::lock_guard lock(mutex_);
  return limit_ - std::min(fixed_, limit_);
}

std::uint64_t MemoryBudget::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace temper
