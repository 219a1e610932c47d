#pragma once
// Loads batches ahead of their use in threads of this process. A sample is the unit of work, so one
// slow file delays nothing but its own batch. Batches come in order; their content does not depend
// on the number of threads: random numbers are keyed by (seed, purpose, epoch, sample index).
//
// Decoding threads run at a lower priority than the thread that made the loader. Where reading a
// file takes long, further threads read ahead of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "temper/core/random.h"
#include "temper/data/batch_memory.h"
#include "temper/data/dataset.h"
#include "temper/data/loader_statistics.h"
#include "temper/data/transform.h"

namespace temper {

// What happens to a sample that cannot be loaded (DataError, SystemError).
enum class BadSamplePolicy : std::uint8_t {
  kError,     // next() throws
  kReplace,   // another sample takes its place, chosen by (seed, epoch, sample)
  kLeaveOut,  // the batch is smaller
};

struct LoaderOptions {
  int threads = 1;
  int prefetch_batches = 4;  // batches loaded ahead, at least 1
  // Bytes of batches (one in the caller's hands included), of what is read and decoded, and of the
  // cache, together.
  std::uint64_t memory_limit = std::uint64_t{4} << 30;
  bool cache = false;  // keep samples as they are stored, as far as memory_limit allows
  BadSamplePolicy on_bad_sample = BadSamplePolicy::kError;
  // Memory of the batches, e.g. page-locked; null: ordinary memory, which recycle() reuses. Given
  // memory is let go instead: its copy to a device may be under way, as its allocator knows.
  BatchAllocator allocate{};
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kAugmentation;
  int image_size = 0;  // height and width that every sample must have after the transform
  int channels = 3;    // must be the data set's
};

struct BadSampleNote {
  std::int64_t sample = 0;  // index of the data set
  std::string error;        // names the sample and the reason
  std::optional<std::int64_t> replaced_by;
};

// One batch in memory, [N, H, W, C], contiguous. Bytes 0 ... 255 or floats in [0, 1].
struct HostBatch {
  ElementType element_type = ElementType::kUInt8;
  std::int64_t count = 0;  // may be 0
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  BatchMemory pixels;                // count * height * width * channels elements
  std::vector<std::int64_t> labels;  // count
  std::vector<std::int64_t>
      samples;                     // count, indices of the data set; of a replaced sample its own
  std::vector<BadSampleNote> bad;  // in the order of the batch
};

// The functions of one loader must not be called at the same time, set_threads excepted.
class Loader {
 public:
  // `dataset` must outlive the loader. Throws ConfigError for options that fit neither each other
  // nor the data set.
  Loader(const Dataset& dataset, Transform transform, const LoaderOptions& options);
  // Waits for the samples in work, at most one a thread.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Begins to load `batches`, each a list of indices of the data set; drops what was left of an
  // earlier call. Throws ConfigError when memory_limit does not hold two batches.
  void start(std::uint32_t epoch, std::vector<std::vector<std::uint32_t>> batches);

  // Batches that next() has not returned yet.
  [[nodiscard]] std::size_t remaining() const;

  // Waits for the next batch. With BadSamplePolicy::kError, when a sample of it failed, throws the
  // error of the first failed one (DataError or SystemError, naming the sample); the batch after it
  // can still be fetched. remaining() must not be 0.
  [[nodiscard]] HostBatch next();
  // The same, but asks `give_up` several times a second while it waits; nothing when that is true,
  // and the batch can still be fetched.
  [[nodiscard]] std::optional<HostBatch> next_unless(const std::function<bool()>& give_up);
  // Of the same shape and no sample.
  [[nodiscard]] HostBatch empty_batch() const;

  // How many threads load from now on, at least 1; the others are parked when they have done the
  // sample in work. Changes the speed and nothing else. From any thread at any time.
  void set_threads(int count);

  // Gives a batch's memory back for reuse. Optional.
  void recycle(HostBatch batch);

  // Of what was loaded since start().
  [[nodiscard]] LoaderStatistics statistics() const;

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

}  // namespace temper
