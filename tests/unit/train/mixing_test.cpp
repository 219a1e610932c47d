#include "temper/train/mixing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "temper/dist/communicator.h"

namespace temper {
namespace {

constexpr std::int64_t kClasses = 3;

ImageBatch batch_of(std::int64_t count) {
  const at::TensorOptions doubles = at::TensorOptions().dtype(at::kDouble);
  return {.images = at::arange(count * 2 * 4 * 4, doubles).view({count, 2, 4, 4}) / 1000,
          .labels = at::arange(count, at::kLong).remainder(kClasses),
          .samples = at::arange(count, at::kLong)};
}

TEST(Mixup, MixesEachSampleWithTheOneBeforeIt) {
  const auto alone = make_communicator(nullptr, {});
  const ImageBatch plain = batch_of(5);
  ImageBatch batch = batch_of(5);
  mix(batch, {.share = 0.75}, kClasses, 5, *alone);
  EXPECT_TRUE(at::allclose(batch.images, 0.75 * plain.images + 0.25 * plain.images.roll(1, 0)));
  EXPECT_TRUE(at::equal(batch.labels, plain.labels));
  const at::Tensor expected = at::tensor({0.75, 0.25, 0.0,  //
                                          0.25, 0.75, 0.0,  //
                                          0.0, 0.25, 0.75,  //
                                          0.75, 0.0, 0.25,  //
                                          0.25, 0.75, 0.0},
                                         at::kDouble)
                                  .view({5, kClasses});
  EXPECT_TRUE(at::allclose(batch.targets, expected)) << batch.targets;
}

TEST(Mixup, LabelsAreThoseOfTheLargerShare) {
  const auto alone = make_communicator(nullptr, {});
  const ImageBatch plain = batch_of(4);
  ImageBatch batch = batch_of(4);
  mix(batch, {.share = 0.3}, kClasses, 4, *alone);
  EXPECT_TRUE(at::equal(batch.labels, plain.labels.roll(1, 0)));
}

TEST(Cutmix, PutsTheBoxOfTheOtherImage) {
  const auto alone = make_communicator(nullptr, {});
  const ImageBatch plain = batch_of(3);
  ImageBatch batch = batch_of(3);
  mix(batch, {.share = 0.75, .x = 1, .y = 2, .x_end = 3, .y_end = 4, .cuts = true}, kClasses, 3,
      *alone);
  at::Tensor expected = plain.images.clone();
  expected.slice(2, 2, 4).slice(3, 1, 3).copy_(
      plain.images.roll(1, 0).slice(2, 2, 4).slice(3, 1, 3));
  EXPECT_TRUE(at::equal(batch.images, expected));
  EXPECT_TRUE(at::equal(plain.images, batch_of(3).images)) << "the source is as before";
}

// Mean 1/2 and variance 1 / (4 (2 a + 1)) of Beta(a, a).
TEST(Mixing, SharesHaveTheBetaDistribution) {
  for (const double parameter : {0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (std::uint32_t update = 0; update < kDraws; ++update) {
      const double share = draw_mixing({.mixup = parameter}, 7, update, 0, 8, 8).share;
      ASSERT_GE(share, 0);
      ASSERT_LE(share, 1);
      sum += share;
      squares += share * share;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 0.5, 0.01) << parameter;
    EXPECT_NEAR(squares / kDraws - mean * mean, 1 / (4 * (2 * parameter + 1)), 0.004) << parameter;
  }
}

TEST(Mixing, BoxesLieInsideAndTheShareIsTheirArea) {
  double left = 0;
  for (std::uint32_t update = 0; update < 4000; ++update) {
    const Mixing mixing = draw_mixing({.cutmix = 1}, 7, update, 1, 20, 30);
    ASSERT_TRUE(mixing.cuts);
    ASSERT_GE(mixing.x, 0);
    ASSERT_LE(mixing.x, mixing.x_end);
    ASSERT_LE(mixing.x_end, 30);
    ASSERT_GE(mixing.y, 0);
    ASSERT_LE(mixing.y, mixing.y_end);
    ASSERT_LE(mixing.y_end, 20);
    ASSERT_DOUBLE_EQ(
        mixing.share,
        1 - static_cast<double>((mixing.x_end - mixing.x) * (mixing.y_end - mixing.y)) / 600);
    left += static_cast<double>(mixing.x + mixing.x_end) / 2;
  }
  EXPECT_NEAR(left / 4000, 14.5, 0.5);  // the middle is uniform over 0 ... 29
}

TEST(Mixing, DrawsDependOnSeedUpdateAndMicroBatchAndTakeBothKinds) {
  const MixingOptions both{.mixup = 1, .cutmix = 1};
  const auto share = [&](std::uint64_t seed, std::uint32_t update, std::uint32_t micro_batch) {
    return draw_mixing({.mixup = 1}, seed, update, micro_batch, 8, 8).share;
  };
  EXPECT_EQ(share(1, 2, 3), share(1, 2, 3));
  EXPECT_NE(share(1, 2, 3), share(2, 2, 3));
  EXPECT_NE(share(1, 2, 3), share(1, 3, 3));
  EXPECT_NE(share(1, 2, 3), share(1, 2, 4));
  int cuts = 0;
  for (std::uint32_t update = 0; update < 1000; ++update) {
    cuts += draw_mixing(both, 1, update, 0, 8, 8).cuts ? 1 : 0;
  }
  EXPECT_NEAR(cuts, 500, 60);
}

}  // namespace
}  // namespace temper
