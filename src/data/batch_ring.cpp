#include "data/batch_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "temper/core/error.h"

namespace temper {

void BatchRing::start(std::uint32_t epoch, Batches batches, std::size_t slots) {
  require(in_work_ == 0, "samples are being loaded");
  stop();
  slots_.clear();
  slots_.resize(slots);
  spare_.resize(std::min(spare_.size(), slots));
  epoch_ = epoch;
  batches_ = std::move(batches);
}

void BatchRing::stop() {
  batches_.clear();
  taken_ = next_batch_ = next_position_ = 0;
}

bool BatchRing::has_work() {
  while (next_batch_ < batches_.size() && next_position_ == batches_[next_batch_].size()) {
    ++next_batch_;
    next_position_ = 0;
  }
  return next_batch_ < batches_.size() && next_batch_ < taken_ + slots_.size();
}

std::optional<SampleWork> BatchRing::take_work() {
  const std::vector<std::uint32_t>& samples = batches_[next_batch_];
  if (next_position_ == 0) {
    Slot& slot = slot_of(next_batch_);
    try {
      prepare(slot, samples);
    } catch (...) {
      slot.missing = 0;
      slot.error = std::current_exception();
      slot.error_position = 0;
      next_position_ = samples.size();
      return std::nullopt;
    }
  }
  const SampleWork work{next_batch_, next_position_, samples[next_position_], epoch_};
  ++next_position_;
  ++in_work_;
  return work;
}

void BatchRing::prepare(Slot& slot, const std::vector<std::uint32_t>& samples) {
  if (!spare_.empty()) {
    slot.batch = std::move(spare_.back());
    spare_.pop_back();
  }
  slot.missing = samples.size();
  slot.error = nullptr;
  slot.notes.clear();
  slot.left_out.clear();
  HostBatch& batch = slot.batch;
  batch.element_type = shape_.element_type;
  batch.count = static_cast<std::int64_t>(samples.size());
  batch.height = batch.width = shape_.side;
  batch.channels = shape_.channels;
  batch.pixels.resize(samples.size() * shape_.sample_bytes(), shape_.allocate);
  batch.labels.resize(samples.size());
  batch.samples.assign(samples.begin(), samples.end());
  batch.bad.clear();
}

std::byte* BatchRing::place_of(const SampleWork& work) {
  return slot_of(work.batch).batch.pixels.data() + work.position * shape_.sample_bytes();
}

bool BatchRing::done(const SampleWork& work, SampleOutcome outcome) {
  --in_work_;
  if (work.batch >= batches_.size()) {
    return false;  // of batches that are not wanted any more
  }
  Slot& slot = slot_of(work.batch);
  if (outcome.error != nullptr && outcome.note) {
    slot.left_out.push_back(work.position);
  } else if (outcome.error != nullptr &&
             (slot.error == nullptr || work.position < slot.error_position)) {
    slot.error = std::move(outcome.error);
    slot.error_position = work.position;
  }
  if (outcome.note) {
    slot.notes.emplace_back(work.position, *std::move(outcome.note));
  }
  slot.batch.labels[work.position] = outcome.label;
  return --slot.missing == 0;
}

bool BatchRing::is_ready(std::size_t batch) const {
  if (batches_[batch].empty()) {
    return true;
  }
  const bool begun_all =
      next_batch_ > batch || (next_batch_ == batch && next_position_ == batches_[batch].size());
  return begun_all && slot_of(batch).missing == 0;
}

bool BatchRing::next_is_ready() const { return is_ready(taken_); }

std::size_t BatchRing::ready() const {
  std::size_t count = 0;
  for (std::size_t b = taken_; b < std::min(batches_.size(), taken_ + slots_.size()); ++b) {
    count += is_ready(b) ? 1 : 0;
  }
  return count;
}

BatchRing::Taken BatchRing::take() {
  const std::size_t index = taken_++;
  if (batches_[index].empty()) {
    return {empty_batch(), nullptr};
  }
  Slot& slot = slot_of(index);
  Taken taken{std::exchange(slot.batch, HostBatch{}), std::exchange(slot.error, nullptr)};
  std::ranges::sort(slot.notes, {}, &std::pair<std::size_t, BadSampleNote>::first);
  for (auto& [position, note] : slot.notes) {
    taken.batch.bad.push_back(std::move(note));
  }
  leave_out(taken.batch, std::move(slot.left_out));
  slot.notes.clear();
  slot.left_out.clear();
  return taken;
}

void BatchRing::leave_out(HostBatch& batch, std::vector<std::size_t> positions) const {
  if (positions.empty()) {
    return;
  }
  std::ranges::sort(positions);
  const std::size_t bytes = shape_.sample_bytes();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.count); ++i) {
    if (std::ranges::binary_search(positions, i)) {
      continue;
    }
    if (kept != i) {
      std::memcpy(batch.pixels.data() + kept * bytes, batch.pixels.data() + i * bytes, bytes);
      batch.labels[kept] = batch.labels[i];
      batch.samples[kept] = batch.samples[i];
    }
    ++kept;
  }
  batch.count = static_cast<std::int64_t>(kept);
  batch.pixels.shrink(kept * bytes);
  batch.labels.resize(kept);
  batch.samples.resize(kept);
}

void BatchRing::recycle(HostBatch batch) {
  if (!shape_.allocate && spare_.size() < slots_.size()) {
    spare_.push_back(std::move(batch));
  }
}

HostBatch BatchRing::empty_batch() const {
  HostBatch batch;
  batch.element_type = shape_.element_type;
  batch.height = batch.width = shape_.side;
  batch.channels = shape_.channels;
  return batch;
}

}  // namespace temper
