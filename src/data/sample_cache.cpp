#include "data/sample_cache.h"

#include <cstring>
#include <span>

namespace temper {
namespace {

std::span<const std::uint8_t> bytes_of(const StoredSample& stored) {
  return std::visit([](const auto& sample) { return sample.bytes; }, stored);
}

}  // namespace

SampleCache::SampleCache(std::size_t samples, MemoryBudget& budget, std::uint64_t spare)
    : budget_(budget), spare_(spare), entries_(samples) {}

SampleCache::~SampleCache() { budget_.give_back(bytes_); }

std::shared_ptr<const SampleCache::Entry> SampleCache::find(std::uint32_t sample) const {
  const std::lock_guard lock(mutex_);
  return entries_.at(sample);
}

void SampleCache::offer(std::uint32_t sample, const StoredSample& stored) {
  const std::span<const std::uint8_t> bytes = bytes_of(stored);
  const std::uint64_t cost = bytes.size() + sizeof(Entry);
  if (!budget_.try_take(cost, spare_)) {
    return;
  }
  auto entry = std::make_shared<Entry>();
  entry->memory = std::make_unique_for_overwrite<std::uint8_t[]>(bytes.size());
  std::memcpy(entry->memory.get(), bytes.data(), bytes.size());
  entry->sample = stored;
  entry->bytes = cost;
  std::visit([&](auto& copy) { copy.bytes = {entry->memory.get(), bytes.size()}; }, entry->sample);
  const std::lock_guard lock(mutex_);
  if (entries_.at(sample) != nullptr) {
    budget_.give_back(cost);
    return;
  }
  entries_[sample] = std::move(entry);
  bytes_ += cost;
}

void SampleCache::drop(std::uint64_t bytes) {
  std::uint64_t dropped = 0;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < entries_.size() && dropped < bytes; ++i) {
    auto& entry = entries_[next_drop_];
    next_drop_ = (next_drop_ + 1) % entries_.size();
    if (entry != nullptr) {
      dropped += entry->bytes;
      entry.reset();
    }
  }
  bytes_ -= dropped;
  budget_.give_back(dropped);
}

}  // namespace temper
