#include "temper/optim/weight_average.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "temper/core/error.h"

namespace temper {
namespace {

struct Rig {
  at::Tensor weight = at::full({3}, 1.0, at::kDouble);
  at::Tensor count = at::zeros({}, at::kLong);
  at::Tensor average_weight = at::full({3}, -7.0, at::kDouble);
  at::Tensor average_count = at::full({}, 9, at::kLong);

  WeightAverage make(const WeightAverageOptions& options) {
    return WeightAverage({{"weight", weight}, {"count", count}},
                         {{"weight", average_weight}, {"count", average_count}}, options);
  }
  double value() const { return average_weight[0].item<double>(); }
};

const at::Tensor kApplied = at::zeros({});
const at::Tensor kSkipped = at::ones({});

TEST(WeightAverage, StartsAsACopyAndIsNeverAnAlias) {
  Rig rig;
  const WeightAverage average = rig.make({});
  EXPECT_EQ(rig.value(), 1);
  EXPECT_EQ(rig.average_count.item<std::int64_t>(), 0);
  rig.weight.fill_(5);
  EXPECT_EQ(rig.value(), 1);
  EXPECT_THROW(WeightAverage({{"weight", rig.weight}}, {{"weight", rig.weight.view({3})}}, {}),
               CheckFailure);
}

TEST(WeightAverage, IsTheRecursionOfItsDefinition) {
  Rig rig;
  WeightAverage average = rig.make({.decay = 0.75, .warmup = false});
  double expected = 1;
  for (int t = 0; t < 6; ++t) {
    rig.weight.fill_(t * t);
    rig.count.add_(2);
    average.update(kApplied);
    expected = 0.75 * expected + 0.25 * t * t;
    EXPECT_NEAR(rig.value(), expected, 1e-14);
    EXPECT_EQ(rig.average_count.item<std::int64_t>(), 2 * (t + 1));  // copied, not averaged
  }
}

TEST(WeightAverage, WarmsUp) {
  Rig rig;
  WeightAverage average = rig.make({.decay = 0.5, .warmup = true});
  double expected = 1;
  for (int t = 0; t < 20; ++t) {
    rig.weight.fill_(t);
    average.update(kApplied);
    const double decay = std::min(0.5, (1.0 + t) / (10.0 + t));
    expected = decay * expected + (1 - decay) * t;
    EXPECT_NEAR(rig.value(), expected, 1e-13) << t;
  }
}

TEST(WeightAverage, ASkippedUpdateChangesNothing) {
  Rig rig;
  WeightAverage average = rig.make({.decay = 0.5, .warmup = true});
  rig.weight.fill_(3);
  average.update(kApplied);
  const double before = rig.value();
  rig.weight.fill_(100);
  average.update(kSkipped);
  EXPECT_EQ(rig.value(), before);
  EXPECT_EQ(average.updates(), 1);
}

TEST(WeightAverage, GoesOnFromASavedState) {
  Rig whole;
  WeightAverage one = whole.make({});
  Rig part;
  WeightAverage first = part.make({});
  Rig rest;
  WeightAverage second = rest.make({});
  for (int t = 0; t < 4; ++t) {
    whole.weight.fill_(t + 0.3);
    one.update(kApplied);
    Rig& rig = t < 2 ? part : rest;
    rig.weight.fill_(t + 0.3);
    (t < 2 ? first : second).update(kApplied);
    if (t == 1) {
      second.load(first.tensors(), first.updates());
    }
  }
  EXPECT_EQ(rest.value(), whole.value());
  EXPECT_EQ(second.updates(), 4);
}

TEST(WeightAverage, RefusesAStateThatDoesNotFit) {
  Rig rig;
  WeightAverage average = rig.make({});
  EXPECT_THROW(average.load({{"weight", at::zeros({3})}}, 1), ConfigError);
  EXPECT_THROW(average.load({{"weight", at::zeros({4})}, {"count", at::zeros({})}}, 1),
               ConfigError);
  EXPECT_THROW(average.load({{"weights", at::zeros({3})}, {"count", at::zeros({})}}, 1),
               ConfigError);
}

}  // namespace
}  // namespace temper
