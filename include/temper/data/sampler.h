#pragma once
// Which rank trains on which samples, by integer arithmetic alone, equal on all ranks.
//
// The epoch's permutation is cut into global batches. With accumulation a global batch is cut into
// that many contiguous micro-batches, whose sizes differ by at most one. Position i of a
// micro-batch goes to rank i mod world size, so the samples of an update do not depend on the world
// size.
//
// With extra data a part of each global batch comes from there, spread over its positions.
// An epoch is still one pass over the data set; the extra samples come from permutations of their
// own, pass after pass, which go on from epoch to epoch.

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
  // Samples behind those of the data set, with indices from dataset_size on; 0: none.
  std::uint64_t extra_size = 0;
  double extra_fraction = 0;  // of a global batch, rounded to samples
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
  // than samples, for drop_last with fewer samples than one batch, and for extra data that leave no
  // room for others or have none themselves.
  explicit ShardedSampler(const SamplerOptions& options);

  [[nodiscard]] std::uint64_t updates_per_epoch() const { return updates_per_epoch_; }
  // Samples of one epoch over all ranks, without dropped ones and with extra ones.
  [[nodiscard]] std::uint64_t samples_per_epoch() const;

  // Of the data set and of extra data in a full global batch.
  [[nodiscard]] std::uint64_t own_per_batch() const { return own_per_batch_; }
  [[nodiscard]] std::uint64_t extra_per_batch() const {
    return options_.global_batch_size - own_per_batch_;
  }

  // `update_in_epoch` counts from 0. Keeps the last permutations, so calls must not overlap.
  [[nodiscard]] GlobalBatch global_batch(std::uint32_t epoch, std::uint64_t update_in_epoch);

  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  [[nodiscard]] std::uint64_t own_in_batch(std::uint64_t update_in_epoch) const;
  [[nodiscard]] std::uint64_t extra_in_batch(std::uint64_t update_in_epoch) const;
  [[nodiscard]] std::uint64_t extra_per_epoch() const;
  [[nodiscard]] std::uint32_t extra_sample(std::uint64_t place);

  SamplerOptions options_;
  std::uint64_t own_per_batch_ = 1;
  std::uint64_t updates_per_epoch_ = 0;
  std::optional<std::uint32_t> extra_pass_;
  std::vector<std::uint32_t> extra_permutation_;
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
