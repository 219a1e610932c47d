#pragma once
// From a stored sample to its place in a batch: read, decode, transform. One object a thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "data/memory_budget.h"
#include "data/resize.h"
#include "data/sample_cache.h"
#include "data/transform_plan.h"
#include "temper/core/random.h"
#include "temper/data/dataset.h"
#include "temper/data/transform.h"

namespace temper {

// What all threads of a loader share; outlives them.
struct SampleLoaderParts {
  const Dataset& dataset;
  const Transform& transform;
  int image_size;
  MemoryBudget& budget;
  SampleCache* cache;       // null: none
  std::uint64_t allowance;  // bytes that each thread may take without asking the budget
};

// A sample that has been read ahead.
struct FetchedSample {
  explicit FetchedSample(MemoryBudget& budget) : lease(budget) {}
  Buffer buffer;
  StoredSample stored;
  MemoryLease lease;
};

struct SampleCost {
  double read_seconds = 0;
  std::uint64_t bytes_read = 0;
};

class SampleLoader {
 public:
  explicit SampleLoader(const SampleLoaderParts& parts);

  // Writes image_size x image_size pixels with the data set's channels and element type. `fetched`:
  // what read_ahead() made of the same sample, or null. Throws DataError that names the sample.
  SampleCost load(std::uint32_t sample, const SampleRandom& random, FetchedSample* fetched,
                  std::byte* out);

  // Reads a sample for another thread. Null when the budget has no room now, or
  // the sample is in memory.
  [[nodiscard]] static std::unique_ptr<FetchedSample> read_ahead(const SampleLoaderParts& parts,
                                                                 std::uint32_t sample,
                                                                 SampleCost& cost);

 private:
  StoredSample read(std::uint32_t sample, SampleCost& cost);
  void process(std::uint32_t sample, StoredSample stored, const SampleRandom& random,
               std::byte* out);
  void process_encoded(std::uint32_t sample, EncodedImage image, SampleRandom random,
                       std::byte* out);
  void finish(const TransformPlan& plan, const PictureRegion& region, SampleRandom& random,
              std::byte* out);
  [[nodiscard]] PictureRegion with_wanted_channels(const ImageView& view);
  // False when memory has to be waited for.
  [[nodiscard]] bool has_room(std::uint64_t bytes);
  // False when there never is so much.
  [[nodiscard]] bool wait_for_room(std::uint64_t bytes);
  void release_buffers();
  void forget_large_sample();

  const SampleLoaderParts& parts_;
  MemoryLease lease_;  // beyond the allowance
  Buffer file_;
  Buffer decoded_;
  ResizeScratch scratch_;
  std::shared_ptr<const SampleCache::Entry> cached_;
};

}  // namespace temper
