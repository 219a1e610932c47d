#include "temper/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "temper/core/error.h"
#include "temper/core/random.h"

namespace temper {
namespace {

struct SamplerCase {
  std::uint64_t dataset_size;
  std::uint64_t global_batch_size;
  std::uint64_t accumulation;
  bool drop_last;

  [[nodiscard]] bool is_valid() const {
    return accumulation <= global_batch_size && (!drop_last || dataset_size >= global_batch_size);
  }
  [[nodiscard]] SamplerOptions options(int rank, int world_size) const {
    return {.dataset_size = dataset_size,
            .global_batch_size = global_batch_size,
            .accumulation = accumulation,
            .rank = rank,
            .world_size = world_size,
            .seed = 7,
            .drop_last = drop_last};
  }
  [[nodiscard]] std::string text() const {
    return concat(dataset_size, " samples, batch ", global_batch_size, ", accumulation ",
                  accumulation, drop_last ? ", last batch dropped" : "");
  }
};

// One sample, fewer than ranks or than a batch, primes, full and incomplete last batches.
std::vector<SamplerCase> sweep(bool valid) {
  std::vector<SamplerCase> cases;
  for (const std::uint64_t samples : {1U, 2U, 3U, 4U, 8U, 37U, 64U, 100U}) {
    for (const std::uint64_t batch : {1U, 2U, 3U, 7U, 8U, 16U, 37U, 200U}) {
      for (const std::uint64_t accumulation : {1U, 2U, 3U, 8U, 9U}) {
        for (const bool drop_last : {false, true}) {
          const SamplerCase c{samples, batch, accumulation, drop_last};
          if (c.is_valid() == valid) {
            cases.push_back(c);
          }
        }
      }
    }
  }
  return cases;
}

constexpr std::array kWorldSizes{1, 2, 3, 4, 5};

std::vector<ShardedSampler> all_ranks(const SamplerCase& c, int world_size) {
  std::vector<ShardedSampler> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back(c.options(rank, world_size));
  }
  return ranks;
}

// The samples of one micro-batch in global order, put together from all ranks.
std::vector<std::uint32_t> interleave(const std::vector<MicroBatch>& ranks) {
  std::vector<std::uint32_t> samples;
  for (std::size_t i = 0; i < ranks[0].global_size; ++i) {
    samples.push_back(ranks[i % ranks.size()].samples.at(i / ranks.size()));
  }
  return samples;
}

void expect_epoch_is_the_permutation(const SamplerCase& c, int world) {
  std::vector<ShardedSampler> ranks = all_ranks(c, world);
  std::vector<std::uint32_t> seen;
  for (std::uint64_t update = 0; update < ranks[0].updates_per_epoch(); ++update) {
    std::vector<GlobalBatch> batches;
    for (ShardedSampler& rank : ranks) {
      batches.push_back(rank.global_batch(3, update));
    }
    std::uint64_t total = 0;
    for (std::size_t part = 0; part < batches[0].micro_batches.size(); ++part) {
      std::vector<MicroBatch> shards;
      std::set<std::uint32_t> distinct;
      for (const GlobalBatch& batch : batches) {
        ASSERT_EQ(batch.micro_batches.size(), batches[0].micro_batches.size());
        shards.push_back(batch.micro_batches[part]);
        ASSERT_EQ(shards.back().global_size, shards[0].global_size);
        distinct.insert(shards.back().samples.begin(), shards.back().samples.end());
        ASSERT_LE(shards[0].samples.size() - shards.back().samples.size(), 1U);
      }
      ASSERT_EQ(distinct.size(), shards[0].global_size) << "ranks share a sample or miss one";
      total += shards[0].global_size;
      const auto samples = interleave(shards);
      seen.insert(seen.end(), samples.begin(), samples.end());
    }
    ASSERT_EQ(total, batches[0].global_size);
  }
  auto expected = epoch_permutation(7, 3, c.dataset_size);
  expected.resize(ranks[0].samples_per_epoch());
  ASSERT_EQ(seen, expected);
}

TEST(ShardedSampler, EveryWorldSizeTrainsOnThePermutationInOrder) {
  for (const SamplerCase& c : sweep(true)) {
    for (const int world : kWorldSizes) {
      SCOPED_TRACE(concat(c.text(), ", world size ", world));
      ASSERT_NO_FATAL_FAILURE(expect_epoch_is_the_permutation(c, world));
    }
  }
}

TEST(ShardedSampler, BatchesAreFullExceptTheLastAndMicroBatchesEven) {
  for (const SamplerCase& c : sweep(true)) {
    SCOPED_TRACE(c.text());
    ShardedSampler sampler(c.options(0, 1));
    for (std::uint64_t update = 0; update < sampler.updates_per_epoch(); ++update) {
      const GlobalBatch batch = sampler.global_batch(0, update);
      const bool last = update + 1 == sampler.updates_per_epoch();
      if (!last || c.drop_last) {
        ASSERT_EQ(batch.global_size, c.global_batch_size);
      }
      ASSERT_EQ(batch.micro_batches.size(), std::min(c.accumulation, batch.global_size));
      const auto [small, large] = std::minmax_element(
          batch.micro_batches.begin(), batch.micro_batches.end(),
          [](const MicroBatch& a, const MicroBatch& b) { return a.global_size < b.global_size; });
      ASSERT_GE(small->global_size, 1U);
      ASSERT_LE(large->global_size - small->global_size, 1U);
    }
  }
}

// A run that starts in the middle of an epoch, with any world size, has a sampler that was never
// asked for what came before.
TEST(ShardedSampler, ARestartGoesOnWithTheSameSamples) {
  for (const SamplerCase& c : sweep(true)) {
    for (const int world : kWorldSizes) {
      std::vector<ShardedSampler> running = all_ranks(c, world);
      for (std::uint64_t update = 0; update < running[0].updates_per_epoch(); update += 3) {
        for (int rank = 0; rank < world; ++rank) {
          const GlobalBatch expected =
              running[static_cast<std::size_t>(rank)].global_batch(5, update);
          const GlobalBatch restarted =
              ShardedSampler(c.options(rank, world)).global_batch(5, update);
          ASSERT_EQ(restarted.global_size, expected.global_size);
          ASSERT_EQ(restarted.micro_batches.size(), expected.micro_batches.size());
          for (std::size_t part = 0; part < expected.micro_batches.size(); ++part) {
            ASSERT_EQ(restarted.micro_batches[part].samples, expected.micro_batches[part].samples)
                << c.text() << ", world size " << world << ", update " << update;
          }
        }
      }
    }
  }
}

TEST(ShardedSampler, TheOrderChangesWithEpochAndSeed) {
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ShardedSampler sampler({.dataset_size = 37, .global_batch_size = 37, .seed = seed});
    for (std::uint32_t epoch = 0; epoch < 50; ++epoch) {
      orders.insert(sampler.global_batch(epoch, 0).micro_batches[0].samples);
    }
  }
  EXPECT_EQ(orders.size(), 1000U);
}

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
  for (const SamplerCase& c : sweep(false)) {
    EXPECT_NE(config_error(c.options(0, 1)), "") << c.text();
    EXPECT_EQ(config_error(c.options(0, 1)), config_error(c.options(4, 5)))
        << c.text() << ": the ranks must fail alike";
  }
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
    for (const int world : {1, 2, 3, 4, 5, 8}) {
      for (const std::uint64_t batch_size : {1U, 4U, 7U, 100U}) {
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
