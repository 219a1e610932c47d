#pragma once
// Which rank trains on which samples, by integer arithmetic alone, equal on all ranks.
//
// The epoch's permutation is cut into global batches. With accumulation a global batch is cut into
// that many contiguous micro-batches, whose sizes differ by at most one. Position i of a
// micro-batch goes to rank i mod world size, so the samples of an update do not depend on the world
// size.

#include <cstdint>
#include <optional>
#include <vector>

namespace temper {

struct SamplerOptions {
  std::uint64_t dataset_size = 0;
  std::uint64_t global_batch_size = 1;  // over all ranks and micro-batches
  std::uint64_t accumulation = 1;       // micro-batches an update
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;
  bool drop_last = false;  // leave out an epoch's last batch if it is not full
};

struct MicroBatch {
  std::uint64_t global_size = 0;       // samples over all ranks; at least 1
  std::vector<std::uint32_t> samples;  // this rank's, as indices of the data set; may be empty
};

struct GlobalBatch {
  std::uint64_t global_size = 0;
  // min(accumulation, global_size) of them, the same number on every rank.
  std::vector<MicroBatch> micro_batches;
};

class ShardedSampler {
 public:
  // Throws ConfigError for an empty data set, a batch size or accumulation of 0, more micro-batches
  // than samples, and for drop_last with fewer samples than one batch.
  explicit ShardedSampler(const SamplerOptions& options);

  [[nodiscard]] std::uint64_t updates_per_epoch() const { return updates_per_epoch_; }
  // Samples of one epoch over all ranks, without dropped ones.
  [[nodiscard]] std::uint64_t samples_per_epoch() const;

  // `update_in_epoch` counts from 0. Keeps the permutation of the last epoch asked for, so calls
  // must not overlap.
  [[nodiscard]] GlobalBatch global_batch(std::uint32_t epoch, std::uint64_t update_in_epoch);

  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  SamplerOptions options_;
  std::uint64_t updates_per_epoch_ = 0;
  std::optional<std::uint32_t> epoch_;
  std::vector<std::uint32_t> permutation_;
};

// The samples that one rank evaluates, cut into batches of at most `batch_size`. Over the ranks
// each sample occurs exactly once. Every rank gets the same number of batches, so the last ones may
// be empty.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> evaluation_shard(std::uint64_t dataset_size,
                                                                       int rank, int world_size,
                                                                       std::uint64_t batch_size);

}  // namespace temper
