#include "temper/data/sampler.h"

#include <algorithm>

#include "temper/core/error.h"
#include "temper/core/random.h"

namespace temper {

ShardedSampler::ShardedSampler(const SamplerOptions& options) : options_(options) {
  if (options.dataset_size == 0 || options.dataset_size > UINT32_MAX) {
    throw ConfigError(
        concat("data set of ", options.dataset_size, " samples, expected 1 to 4294967295"));
  }
  if (options.global_batch_size == 0 || options.accumulation == 0) {
    throw ConfigError("the global batch size and accumulation must be at least 1");
  }
  if (options.accumulation > options.global_batch_size) {
    throw ConfigError(concat("accumulation ", options.accumulation, " with a global batch of ",
                             options.global_batch_size,
                             " samples: a micro-batch would be empty; lower accumulation"));
  }
  require(options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size,
          "rank ", options.rank, " of ", options.world_size);
  const std::uint64_t full = options.dataset_size / options.global_batch_size;
  const bool rest = options.dataset_size % options.global_batch_size != 0;
  updates_per_epoch_ = full + (rest && !options.drop_last ? 1 : 0);
  if (updates_per_epoch_ == 0) {
    throw ConfigError(concat("the data set has ", options.dataset_size,
                             " samples, less than one global batch of ", options.global_batch_size,
                             ", and last_batch: drop would leave nothing; use last_batch: keep or "
                             "a smaller batch"));
  }
}

std::uint64_t ShardedSampler::samples_per_epoch() const {
  return std::min(options_.dataset_size, updates_per_epoch_ * options_.global_batch_size);
}

GlobalBatch ShardedSampler::global_batch(std::uint32_t epoch, std::uint64_t update_in_epoch) {
  require(update_in_epoch < updates_per_epoch_, "update ", update_in_epoch, " of ",
          updates_per_epoch_);
  if (epoch_ != epoch) {
    permutation_ = epoch_permutation(options_.seed, epoch, options_.dataset_size);
    epoch_ = epoch;
  }
  const std::uint64_t begin = update_in_epoch * options_.global_batch_size;
  GlobalBatch batch;
  batch.global_size = std::min(options_.global_batch_size, options_.dataset_size - begin);
  const std::uint64_t parts = std::min(options_.accumulation, batch.global_size);
  std::uint64_t position = begin;
  for (std::uint64_t part = 0; part < parts; ++part) {
    MicroBatch micro;
    micro.global_size = batch.global_size / parts + (part < batch.global_size % parts ? 1 : 0);
    const std::uint64_t end = position + micro.global_size;
    for (std::uint64_t i = position + static_cast<std::uint64_t>(options_.rank); i < end;
         i += static_cast<std::uint64_t>(options_.world_size)) {
      micro.samples.push_back(permutation_[i]);
    }
    position = end;
    batch.micro_batches.push_back(std::move(micro));
  }
  return batch;
}

std::vector<std::vector<std::uint32_t>> evaluation_shard(std::uint64_t dataset_size, int rank,
                                                         int world_size, std::uint64_t batch_size) {
  require(batch_size > 0, "evaluation batch size is 0");
  require(dataset_size <= UINT32_MAX, "data set of ", dataset_size, " samples");
  require(world_size >= 1 && rank >= 0 && rank < world_size, "rank ", rank, " of ", world_size);
  const auto world = static_cast<std::uint64_t>(world_size);
  const std::uint64_t largest_shard = (dataset_size + world - 1) / world;
  std::vector<std::vector<std::uint32_t>> batches((largest_shard + batch_size - 1) / batch_size);
  std::uint64_t position = 0;
  for (auto i = static_cast<std::uint64_t>(rank); i < dataset_size; i += world, ++position) {
    batches[position / batch_size].push_back(static_cast<std::uint32_t>(i));
  }
  return batches;
}

}  // namespace temper
