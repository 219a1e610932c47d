#include "temper/core/random.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

TEST(Random, BelowStaysInRange) {
  SampleRandom random({.seed = 3, .purpose = Purpose::kAugmentation}, 11);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.below(7), 7U);
  }
}

}  // namespace
}  // namespace temper
