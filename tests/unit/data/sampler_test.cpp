#include "temper/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "temper/core/error.h"
#include "temper/core/random.h"

namespace temper {
namespace {

struct SamplerCase {
  std::uint64_t dataset_size;
  std::uint64_t global_batch_size;
  std::uint64_t accumulation;
  bool drop_last;
};

class SamplerProperties : public testing::TestWithParam<SamplerCase> {
 protected:
  static SamplerOptions options(int rank, int world_size) {
    const SamplerCase& c = GetParam();
    return {.dataset_size = c.dataset_size,
            .global_batch_size = c.global_batch_size,
            .accumulation = c.accumulation,
            .rank = rank,
            .world_size = world_size,
            .seed = 7,
            .drop_last = c.drop_last};
  }
};

// The samples of one micro-batch in global order, put together from all ranks.
std::vector<std::uint32_t> interleave(const std::vector<MicroBatch>& ranks) {
  std::vector<std::uint32_t> samples;
  for (std::size_t i = 0; i < ranks[0].global_size; ++i) {
    samples.push_back(ranks[i % ranks.size()].samples.at(i / ranks.size()));
  }
  return samples;
}

TEST_P(SamplerProperties, EveryWorldSizeTrainsOnThePermutationInOrder) {
  for (const int world : {1, 2, 3, 5, 8}) {
    std::vector<ShardedSampler> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.emplace_back(options(rank, world));
    }
    std::vector<std::uint32_t> seen;
    for (std::uint64_t update = 0; update < ranks[0].updates_per_epoch(); ++update) {
      std::vector<GlobalBatch> batches;
      for (ShardedSampler& rank : ranks) {
        batches.push_back(rank.global_batch(3, update));
      }
      std::uint64_t total = 0;
      for (std::size_t part = 0; part < batches[0].micro_batches.size(); ++part) {
        std::vector<MicroBatch> shards;
        std::size_t count = 0;
        for (const GlobalBatch& batch : batches) {
          shards.push_back(batch.micro_batches.at(part));
          count += shards.back().samples.size();
        }
        ASSERT_EQ(count, shards[0].global_size);
        total += count;
        const auto samples = interleave(shards);
        seen.insert(seen.end(), samples.begin(), samples.end());
      }
      EXPECT_EQ(total, batches[0].global_size);
    }
    auto expected = epoch_permutation(7, 3, GetParam().dataset_size);
    expected.resize(ranks[0].samples_per_epoch());
    EXPECT_EQ(seen, expected) << "world size " << world;
  }
}

TEST_P(SamplerProperties, BatchesAreFullExceptTheLastAndMicroBatchesEven) {
  ShardedSampler sampler(options(0, 1));
  const SamplerCase& c = GetParam();
  for (std::uint64_t update = 0; update < sampler.updates_per_epoch(); ++update) {
    const GlobalBatch batch = sampler.global_batch(0, update);
    const bool last = update + 1 == sampler.updates_per_epoch();
    if (!last || c.drop_last) {
      EXPECT_EQ(batch.global_size, c.global_batch_size);
    }
    EXPECT_EQ(batch.micro_batches.size(), std::min(c.accumulation, batch.global_size));
    const auto [small, large] = std::minmax_element(
        batch.micro_batches.begin(), batch.micro_batches.end(),
        [](const MicroBatch& a, const MicroBatch& b) { return a.global_size < b.global_size; });
    EXPECT_GE(small->global_size, 1U);
    EXPECT_LE(large->global_size - small->global_size, 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, SamplerProperties,
                         testing::Values(SamplerCase{1, 1, 1, false}, SamplerCase{1, 8, 4, false},
                                         SamplerCase{2, 4, 3, false}, SamplerCase{37, 8, 1, false},
                                         SamplerCase{37, 8, 3, false}, SamplerCase{37, 8, 8, true},
                                         SamplerCase{37, 37, 5, true}, SamplerCase{64, 16, 2, true},
                                         SamplerCase{100, 33, 4, false}));

TEST(ShardedSampler, UpdatesPerEpochCountTheRestUnlessDropped) {
  EXPECT_EQ(ShardedSampler({.dataset_size = 37, .global_batch_size = 8}).updates_per_epoch(), 5U);
  EXPECT_EQ(ShardedSampler({.dataset_size = 37, .global_batch_size = 8, .drop_last = true})
                .updates_per_epoch(),
            4U);
}

TEST(ShardedSampler, EpochsDifferAndAnOldOneCanBeAskedAgain) {
  ShardedSampler sampler({.dataset_size = 50, .global_batch_size = 50});
  const auto first = sampler.global_batch(0, 0).micro_batches[0].samples;
  EXPECT_NE(sampler.global_batch(1, 0).micro_batches[0].samples, first);
  EXPECT_EQ(sampler.global_batch(0, 0).micro_batches[0].samples, first);
}

std::string config_error(const SamplerOptions& options) {
  try {
    const ShardedSampler sampler(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ShardedSampler, ImpossibleSizesAreConfigurationErrors) {
  EXPECT_THAT(config_error({.dataset_size = 0}), testing::HasSubstr("data set of 0 samples"));
  EXPECT_THAT(config_error({.dataset_size = 7, .global_batch_size = 8, .drop_last = true}),
              testing::HasSubstr("last_batch"));
  EXPECT_THAT(config_error({.dataset_size = 7, .global_batch_size = 2, .accumulation = 3}),
              testing::HasSubstr("accumulation"));
  EXPECT_THAT(config_error({.dataset_size = 7, .global_batch_size = 0}),
              testing::HasSubstr("at least 1"));
}

TEST(EvaluationShard, CountsEachSampleOnceWithEquallyManyBatches) {
  for (const std::uint64_t size : {0U, 1U, 2U, 7U, 37U, 360U}) {
    for (const int world : {1, 2, 3, 8}) {
      for (const std::uint64_t batch_size : {1U, 4U, 100U}) {
        std::vector<std::uint32_t> seen;
        const std::size_t batches = evaluation_shard(size, 0, world, batch_size).size();
        for (int rank = 0; rank < world; ++rank) {
          const auto shard = evaluation_shard(size, rank, world, batch_size);
          ASSERT_EQ(shard.size(), batches);
          for (const auto& batch : shard) {
            EXPECT_LE(batch.size(), batch_size);
            seen.insert(seen.end(), batch.begin(), batch.end());
          }
        }
        std::sort(seen.begin(), seen.end());
        std::vector<std::uint32_t> expected(size);
        std::iota(expected.begin(), expected.end(), 0U);
        EXPECT_EQ(seen, expected) << size << " samples, world size " << world;
      }
    }
  }
}

}  // namespace
}  // namespace temper
