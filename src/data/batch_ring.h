#pragma once
// Batches on their way: which sample is loaded next, into which place, and what became of it. Batch
// b lies in slot b mod slots, from the moment that batch b - slots was handed out. Not for several
// threads at once: the loader's lock guards it.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "temper/data/loader.h"

namespace temper {

struct BatchShape {
  ElementType element_type = ElementType::kUInt8;
  int side = 0;
  int channels = 0;
  BatchAllocator allocate{};

  [[nodiscard]] std::size_t sample_bytes() const {
    const auto length = static_cast<std::size_t>(side);
    return length * length * static_cast<std::size_t>(channels) * element_size(element_type);
  }
};

// One sample to load.
struct SampleWork {
  std::size_t batch = 0;
  std::size_t position = 0;
  std::uint32_t sample = 0;
  std::uint32_t epoch = 0;
};

// What became of it. With an error and no note the batch fails; with a note and no error another
// sample took the place; with both the place is left out.
struct SampleOutcome {
  std::exception_ptr error;
  std::optional<BadSampleNote> note;
  std::int64_t label = 0;
};

class BatchRing {
 public:
  explicit BatchRing(BatchShape shape) : shape_(std::move(shape)) {}

  using Batches = std::vector<std::vector<std::uint32_t>>;
  void start(std::uint32_t epoch, Batches batches, std::size_t slots);
  // Nothing is begun any more.
  void stop();

  // Moves on to the next sample that may be loaded now; false when there is none.
  [[nodiscard]] bool has_work();
  // The next sample. When the memory of its batch cannot be had, the batch fails and there is none.
  [[nodiscard]] std::optional<SampleWork> take_work();
  // Where the sample's pixels go; valid until it is done.
  [[nodiscard]] std::byte* place_of(const SampleWork& work);
  // True when its batch is complete.
  bool done(const SampleWork& work, SampleOutcome outcome);
  [[nodiscard]] std::size_t in_work() const { return in_work_; }

  [[nodiscard]] std::size_t remaining() const { return batches_.size() - taken_; }
  [[nodiscard]] bool next_is_ready() const;
  // Complete batches that are waiting.
  [[nodiscard]] std::size_t ready() const;
  // The next batch, which must be ready, or its failure.
  struct Taken {
    HostBatch batch;
    std::exception_ptr error;
  };
  [[nodiscard]] Taken take();
  void recycle(HostBatch batch);
  [[nodiscard]] HostBatch empty_batch() const;

 private:
  // A batch that is being filled, and the failure with the lowest position in it.
  struct Slot {
    HostBatch batch;
    std::size_t missing = 0;  // samples not done
    std::exception_ptr error;
    std::size_t error_position = 0;
    std::vector<std::pair<std::size_t, BadSampleNote>> notes;  // by position
    std::vector<std::size_t> left_out;                         // positions
  };

  Slot& slot_of(std::size_t batch) { return slots_[batch % slots_.size()]; }
  [[nodiscard]] const Slot& slot_of(std::size_t batch) const {
    return slots_[batch % slots_.size()];
  }
  void prepare(Slot& slot, const std::vector<std::uint32_t>& samples);
  void leave_out(HostBatch& batch, std::vector<std::size_t> positions) const;
  [[nodiscard]] bool is_ready(std::size_t batch) const;

  const BatchShape shape_;
  std::uint32_t epoch_ = 0;
  Batches batches_;
  std::size_t taken_ = 0;          // batches handed out
  std::size_t next_batch_ = 0;     // of the next sample to load
  std::size_t next_position_ = 0;  // in next_batch_
  std::size_t in_work_ = 0;
  std::vector<Slot> slots_;
  std::vector<HostBatch> spare_;
};

}  // namespace temper
