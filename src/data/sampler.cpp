#include "temper/data/sampler.h"

#include <algorithm>
#include <cmath>

#include "temper/core/error.h"
#include "temper/core/random.h"

namespace temper {
namespace {

// Another key than that of the data set's permutations.
constexpr std::uint64_t kExtraSeed = 0x9e3779b97f4a7c15U;
constexpr std::uint8_t kPlaceLayer = 3;  // 1 and 2: the choices of subset.h

// Extra samples in a full batch.
std::uint64_t extra_of(const SamplerOptions& options) {
  if (options.extra_fraction == 0) {
    return 0;
  }
  const auto count = static_cast<std::uint64_t>(
      std::llround(options.extra_fraction * static_cast<double>(options.global_batch_size)));
  if (count == 0 || count >= options.global_batch_size) {
    throw ConfigError(concat("data.extra.fraction: ", options.extra_fraction,
                             " of a global batch of ", options.global_batch_size, " samples is ",
                             count,
                             ": at least one sample of each must be left; use a larger batch or "
                             "another fraction"));
  }
  if (options.extra_size == 0 || options.extra_size > UINT32_MAX - options.dataset_size) {
    throw ConfigError(concat("data.extra has ", options.extra_size, " samples"));
  }
  return count;
}

}  // namespace

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
  own_per_batch_ = options.global_batch_size - extra_of(options);
  const std::uint64_t full = options.dataset_size / own_per_batch_;
  const bool rest = options.dataset_size % own_per_batch_ != 0;
  updates_per_epoch_ = full + (rest && !options.drop_last ? 1 : 0);
  if (updates_per_epoch_ == 0) {
    throw ConfigError(concat("the data set has ", options.dataset_size,
                             " samples, less than one global batch of ", options.global_batch_size,
                             ", and last_batch: drop would leave nothing; use last_batch: keep or "
                             "a smaller batch"));
  }
}

std::uint64_t ShardedSampler::own_in_batch(std::uint64_t update_in_epoch) const {
  return std::min(own_per_batch_, options_.dataset_size - update_in_epoch * own_per_batch_);
}

// In a smaller last batch the same share, rounded.
std::uint64_t ShardedSampler::extra_in_batch(std::uint64_t update_in_epoch) const {
  const std::uint64_t own = own_in_batch(update_in_epoch);
  return (own * extra_per_batch() + own_per_batch_ / 2) / own_per_batch_;
}

std::uint64_t ShardedSampler::extra_per_epoch() const {
  return (updates_per_epoch_ - 1) * extra_per_batch() + extra_in_batch(updates_per_epoch_ - 1);
}

std::uint64_t ShardedSampler::samples_per_epoch() const {
  return std::min(options_.dataset_size, updates_per_epoch_ * own_per_batch_) + extra_per_epoch();
}

std::uint32_t ShardedSampler::extra_sample(std::uint64_t place) {
  const auto pass = static_cast<std::uint32_t>(place / options_.extra_size);
  if (extra_pass_ != pass) {
    extra_permutation_ = epoch_permutation(options_.seed ^ kExtraSeed, pass, options_.extra_size);
    extra_pass_ = pass;
  }
  return static_cast<std::uint32_t>(options_.dataset_size) +
         extra_permutation_[place % options_.extra_size];
}

GlobalBatch ShardedSampler::global_batch(std::uint32_t epoch, std::uint64_t update_in_epoch) {
  require(update_in_epoch < updates_per_epoch_, "update ", update_in_epoch, " of ",
          updates_per_epoch_);
  if (epoch_ != epoch) {
    permutation_ = epoch_permutation(options_.seed, epoch, options_.dataset_size);
    epoch_ = epoch;
  }
  const std::uint64_t extra = extra_in_batch(update_in_epoch);
  GlobalBatch batch;
  batch.global_size = own_in_batch(update_in_epoch) + extra;
  std::uint64_t own_place = update_in_epoch * own_per_batch_;
  std::uint64_t extra_place = epoch * extra_per_epoch() + update_in_epoch * extra_per_batch();
  std::vector<std::uint32_t> samples;
  samples.reserve(batch.global_size);
  // One extra sample in each of as many stretches, at a place that is drawn: a fixed one would give
  // them all to one rank where the stretch is as long as there are ranks.
  const std::uint64_t number = epoch * updates_per_epoch_ + update_in_epoch;
  SampleRandom random({.seed = options_.seed, .purpose = Purpose::kShuffle, .layer = kPlaceLayer},
                      static_cast<std::uint32_t>(number));
  std::vector<bool> is_extra(batch.global_size, false);
  for (std::uint64_t i = 0; i < extra; ++i) {
    const std::uint64_t first = i * batch.global_size / extra;
    is_extra[first + random.below((i + 1) * batch.global_size / extra - first)] = true;
  }
  for (std::uint64_t i = 0; i < batch.global_size; ++i) {
    samples.push_back(is_extra[i] ? extra_sample(extra_place++) : permutation_[own_place++]);
  }
  const std::uint64_t parts = std::min(options_.accumulation, batch.global_size);
  std::uint64_t position = 0;
  for (std::uint64_t part = 0; part < parts; ++part) {
    MicroBatch micro;
    micro.global_size = batch.global_size / parts + (part < batch.global_size % parts ? 1 : 0);
    const std::uint64_t end = position + micro.global_size;
    for (std::uint64_t i = position + static_cast<std::uint64_t>(options_.rank); i < end;
         i += static_cast<std::uint64_t>(options_.world_size)) {
      micro.samples.push_back(samples[i]);
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
