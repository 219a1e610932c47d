#include "temper/core/random.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "temper/core/random_tensor.h"

namespace temper {
namespace {

// Known answers of the Random123 distribution for philox4x32-10.
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, TensorOperationsGiveTheSameNumbers) {
  const RandomStream stream{.seed = 0x123456789abcdef0,
                            .purpose = Purpose::kAttackStart,
                            .layer = 3,
                            .step = 7,
                            .index = 0xfffffff0};
  const at::Tensor samples = at::tensor({0L, 5L, 4294967295L, 17L});
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor scalar = uniform_tensor(stream, samples, {3, 5, 7}, dtype);
    const at::Tensor tensor =
        uniform_by_tensor_operations(stream, samples, 105, dtype).view({4, 3, 5, 7});
    EXPECT_TRUE(at::equal(scalar, tensor));
  }
}

TEST(Random, RowsDependOnTheSampleAlone) {
  const RandomStream stream{.seed = 1, .purpose = Purpose::kDropout};
  const at::Tensor together = uniform_tensor(stream, at::tensor({4L, 9L}), {10}, at::kFloat);
  const at::Tensor alone = uniform_tensor(stream, at::tensor({9L}), {10}, at::kFloat);
  EXPECT_TRUE(at::equal(together[1], alone[0]));
  EXPECT_FALSE(at::equal(together[0], alone[0]));
}

TEST(Random, NormalHasTheRightMoments) {
  const RandomStream stream{.seed = 2, .purpose = Purpose::kAttackStart};
  const at::Tensor normal = normal_tensor(stream, at::tensor({1L}), {100000}, at::kDouble);
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(normal.var().item<double>(), 1, 0.02);
  EXPECT_TRUE(normal.isfinite().all().item<bool>());
}

TEST(Random, PermutationIsCompleteAndChangesWithEpochAndSeed) {
  const auto first = epoch_permutation(7, 0, 37);
  EXPECT_EQ(std::set<std::uint32_t>(first.begin(), first.end()).size(), 37U);
  EXPECT_EQ(first, epoch_permutation(7, 0, 37));
  EXPECT_NE(first, epoch_permutation(7, 1, 37));
  EXPECT_NE(first, epoch_permutation(8, 0, 37));
  EXPECT_TRUE(epoch_permutation(7, 0, 0).empty());
}

// Philox is a bijection of the counter for each seed, so equal blocks would mean that two counters
// coincide: this finds words that overlap, without luck.
TEST(Random, NoNumberIsDrawnForTwoThings) {
  constexpr std::uint32_t kLast = 0xffffffff;
  std::set<PhiloxBlock> blocks;
  std::size_t drawn = 0;
  for (int purpose = 1; purpose <= 7; ++purpose) {
    for (const int layer : {0, 1, 2, 255}) {
      for (const int step : {0, 1, 2, 255, 256, 65535}) {
        for (const std::uint32_t index : {0U, 1U, 2U, kLast}) {
          const RandomStream stream{.seed = 6,
                                    .purpose = static_cast<Purpose>(purpose),
                                    .layer = static_cast<std::uint8_t>(layer),
                                    .step = static_cast<std::uint16_t>(step),
                                    .index = index};
          for (const std::uint32_t sample : {0U, 1U, 2U, kLast}) {
            for (const std::uint32_t block : {0U, 1U, 2U}) {
              blocks.insert(stream.block(sample, block));
              ++drawn;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(blocks.size(), drawn);
}

TEST(Random, NeitherTheBatchNorTheLengthChangesASamplesNumbers) {
  const RandomStream stream{.seed = 1, .purpose = Purpose::kAttackStart, .step = 2, .index = 9};
  const at::Tensor samples = at::arange(37).mul(17).remainder(37).mul(1000003);
  const at::Tensor whole = uniform_tensor(stream, samples, {13}, at::kDouble);
  const at::Tensor gaussian = normal_tensor(stream, samples, {13}, at::kDouble);
  for (std::int64_t world = 1; world <= 5; ++world) {
    for (std::int64_t rank = 0; rank < world; ++rank) {
      const at::Tensor own = samples.slice(0, rank, std::nullopt, world);
      EXPECT_TRUE(at::equal(uniform_tensor(stream, own, {7}, at::kDouble),
                            whole.slice(0, rank, std::nullopt, world).narrow(1, 0, 7)));
      EXPECT_TRUE(at::equal(normal_tensor(stream, own, {13}, at::kDouble),
                            gaussian.slice(0, rank, std::nullopt, world)));
    }
  }
  std::vector<double> row(13);
  fill_uniform(stream, static_cast<std::uint32_t>(samples[5].item<std::int64_t>()), row);
  EXPECT_TRUE(at::equal(at::tensor(row, at::kDouble), whole[5]));
}

// Bounds of five standard deviations; seeds are fixed, so the outcome is, too.
void expect_uniform(const at::Tensor& values, const char* what) {
  const double count = static_cast<double>(values.numel());
  EXPECT_GE(values.min().item<double>(), 0) << what;
  EXPECT_LT(values.max().item<double>(), 1) << what;
  EXPECT_NEAR(values.mean().item<double>(), 0.5, 5 * std::sqrt(1 / (12 * count))) << what;
  EXPECT_NEAR(values.var().item<double>(), 1.0 / 12, 5 * std::sqrt(1 / (180 * count))) << what;
  constexpr std::int64_t kBins = 64;
  const at::Tensor bins = at::bincount(values.mul(kBins).to(at::kLong), {}, kBins);
  const double expected = count / kBins;
  const double chi_square =
      bins.to(at::kDouble).sub(expected).square().sum().item<double>() / expected;
  EXPECT_NEAR(chi_square, kBins - 1, 5 * std::sqrt(2.0 * (kBins - 1))) << what;
  const at::Tensor centered = values.sub(0.5);
  const at::Tensor first = centered.narrow(0, 0, values.numel() - 1);
  const at::Tensor second = centered.narrow(0, 1, values.numel() - 1);
  const double correlation = first.mul(second).mean().item<double>() * 12;
  EXPECT_NEAR(correlation, 0, 5 / std::sqrt(count)) << what;
}

TEST(Random, NumbersAreUniformAlongEachWordOfTheKey) {
  constexpr std::int64_t kCount = 60000;
  const RandomStream stream{.seed = 12, .purpose = Purpose::kAttackStart};
  const at::Tensor one = at::zeros({1}, at::kLong);
  const auto draw = [&](auto&& change) {
    std::vector<double> values(kCount);
    for (std::int64_t i = 0; i < kCount; ++i) {
      RandomStream changed = stream;
      std::uint32_t sample = 0;
      change(changed, sample, static_cast<std::uint32_t>(i));
      values[static_cast<std::size_t>(i)] = unit_interval(changed.block(sample, 0)[0]);
    }
    return at::tensor(values, at::kDouble);
  };
  expect_uniform(uniform_tensor(stream, one, {kCount}, at::kDouble).view(-1), "elements");
  expect_uniform(draw([](RandomStream&, std::uint32_t& sample, std::uint32_t i) { sample = i; }),
                 "samples");
  expect_uniform(draw([](RandomStream& s, std::uint32_t&, std::uint32_t i) { s.index = i; }),
                 "updates");
  expect_uniform(draw([](RandomStream& s, std::uint32_t&, std::uint32_t i) {
                   s.step = static_cast<std::uint16_t>(i);
                 }),
                 "steps");
  expect_uniform(draw([](RandomStream& s, std::uint32_t&, std::uint32_t i) { s.seed = i; }),
                 "seeds");
}

// Each of the 24 orders of four samples is equally likely, over epochs and over seeds.
TEST(Random, PermutationsAreUniform) {
  constexpr int kDraws = 24000;
  for (const bool over_seeds : {false, true}) {
    std::map<std::vector<std::uint32_t>, int> orders;
    for (int i = 0; i < kDraws; ++i) {
      const auto seed = static_cast<std::uint64_t>(over_seeds ? i : 3);
      const auto epoch = static_cast<std::uint32_t>(over_seeds ? 3 : i);
      ++orders[epoch_permutation(seed, epoch, 4)];
    }
    ASSERT_EQ(orders.size(), 24U);
    double chi_square = 0;
    for (const auto& [order, times] : orders) {
      chi_square += (times - 1000.0) * (times - 1000.0) / 1000;
    }
    EXPECT_NEAR(chi_square, 23, 5 * std::sqrt(46.0));
  }
}

TEST(Random, BelowStaysInRange) {
  SampleRandom random({.seed = 3, .purpose = Purpose::kAugmentation}, 11);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.below(7), 7U);
  }
}

}  // namespace
}  // namespace temper
