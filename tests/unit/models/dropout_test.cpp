#include "temper/models/dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/reference_nets.h"
#include "temper/core/error.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

at::Tensor mask_of(const RandomKeys& keys, std::uint8_t layer = 0, std::uint16_t step = 0) {
  Dropout dropout(0.25);
  dropout.set_keys(keys, layer, step);
  return dropout.forward(at::ones({keys.samples.numel(), 40, 5}, at::kDouble));
}

TEST(Dropout, DropsItsShareAndScalesTheRest) {
  const at::Tensor out = mask_of({.seed = 1, .update = 2, .samples = at::arange(50)});
  EXPECT_TRUE(at::logical_or(out.eq(0), out.eq(1 / 0.75)).all().item<bool>());
  EXPECT_NEAR(out.mean().item<double>(), 1, 0.02);  // 10,000 keyed numbers, always the same
}

TEST(Dropout, DependsOnTheSampleNotOnItsPlaceOrItsNeighbours) {
  const at::Tensor whole = mask_of({.seed = 1, .update = 2, .samples = at::arange(6)});
  const at::Tensor part = mask_of({.seed = 1, .update = 2, .samples = at::tensor({5L, 2L})});
  EXPECT_TRUE(at::equal(part[0], whole[5]));
  EXPECT_TRUE(at::equal(part[1], whole[2]));
  EXPECT_FALSE(at::equal(whole[5], whole[2]));
}

TEST(Dropout, DiffersBetweenSeedsUpdatesLayersAndForwards) {
  const at::Tensor samples = at::arange(4);
  const at::Tensor first = mask_of({1, 2, samples});
  EXPECT_TRUE(at::equal(mask_of({1, 2, samples}), first));
  EXPECT_FALSE(at::equal(mask_of({3, 2, samples}), first));
  EXPECT_FALSE(at::equal(mask_of({1, 3, samples}), first));
  EXPECT_FALSE(at::equal(mask_of({1, 2, samples}, 1), first));
  EXPECT_FALSE(at::equal(mask_of({1, 2, samples}, 0, 1), first));
}

TEST(Dropout, IsTheIdentityInRunningModeAndNeedsKeysOtherwise) {
  Dropout dropout(0.5);
  const at::Tensor input = at::rand({3, 4});
  EXPECT_THROW(static_cast<void>(dropout.forward(input)), CheckFailure);
  dropout.set_mode(StatisticsMode::kRunning);
  EXPECT_TRUE(dropout.forward(input).is_same(input));
}

TEST(Dropout, EachForwardOfAModelHasItsOwnMaskAndModesAreRestored) {
  const auto net = testing_support::make_reference_net("dropout");
  initialize(*net, 1);
  net->to(at::kDouble);
  const at::Tensor images =
      at::full({4, 3, 8, 8}, 0.5, at::kDouble) * at::arange(1, 5).view({4, 1, 1, 1});
  net->set_random_keys({.seed = 7, .update = 1, .samples = at::arange(4)});
  const at::Tensor first = net->forward(images);
  const at::Tensor second = net->forward(images);
  EXPECT_FALSE(at::equal(first, second));
  net->set_random_keys({.seed = 7, .update = 1, .samples = at::arange(4)});
  EXPECT_TRUE(at::equal(net->forward(images), first));
  {
    const StatisticsModeGuard running(*net, StatisticsMode::kRunning);
    EXPECT_TRUE(at::equal(net->forward(images), net->forward(images)));
  }
  EXPECT_EQ(net->dropouts().front()->mode(), StatisticsMode::kUpdate);
}

}  // namespace
}  // namespace temper
