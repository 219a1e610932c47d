#include "train/numerics_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kClasses = 10;
constexpr double kBatch = 16;

// One update of 16 samples whose predictions are spread over all classes.
std::array<double, kFieldCount> update(double mean_loss) {
  std::array<double, kFieldCount> values{};
  values[kSampleCount] = kBatch;
  values[kLabelledCount] = kBatch;
  values[kCleanLossSum] = mean_loss * kBatch;
  for (int i = 0; i < kBatch; ++i) {
    values[kPredictionSum] += i % kClasses;
    values[kPredictionSquareSum] += (i % kClasses) * (i % kClasses);
  }
  return values;
}

// The kinds of warnings after each of `count` equal updates.
std::vector<std::string> kinds(NumericsWatch& watch, const std::array<double, kFieldCount>& values,
                               int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    for (const NumericsWarning& warning : watch.add(values.data())) {
      out.push_back(warning.kind);
    }
  }
  return out;
}

TEST(NumericsWatch, WarnsOfALossThatDoesNotFallAfterThreeWindowsAndOnce) {
  NumericsWatch watch(kClasses);
  EXPECT_THAT(kinds(watch, update(std::log(10) + 0.001), 59), ElementsAre());
  EXPECT_THAT(kinds(watch, update(std::log(10) + 0.001), 1), ElementsAre("loss_at_chance"));
  EXPECT_THAT(kinds(watch, update(std::log(10) + 0.001), 200), ElementsAre());
}

TEST(NumericsWatch, WarnsOfALossAboveChanceToo) {
  NumericsWatch watch(kClasses);
  EXPECT_THAT(kinds(watch, update(2.352), 60), ElementsAre("loss_at_chance"));
}

TEST(NumericsWatch, IsSilentWhileTheLossFalls) {
  NumericsWatch slow(kClasses);
  for (int window = 0; window < 8; ++window) {  // a slow start, as in a warm-up of the rate
    EXPECT_THAT(kinds(slow, update(2.303 - 0.004 * window), 20), ElementsAre());
  }
  NumericsWatch watch(kClasses);
  EXPECT_THAT(kinds(watch, update(std::log(10)), 20),
              ElementsAre());  // a start at chance is normal
  EXPECT_THAT(kinds(watch, update(2.2), 20), ElementsAre());
  EXPECT_THAT(kinds(watch, update(std::log(10)), 20), ElementsAre());
  EXPECT_THAT(kinds(watch, update(1.0), 100), ElementsAre());
}

TEST(NumericsWatch, ReadsTheAdversarialLossWhereThereIsNoCleanOne) {
  NumericsWatch watch(kClasses);
  auto values = update(NAN);
  values[kRobustLossSum] = std::log(10) * kBatch;
  EXPECT_THAT(kinds(watch, values, 60), ElementsAre("loss_at_chance"));
}

TEST(NumericsWatch, WarnsOfConstantPredictions) {
  NumericsWatch watch(kClasses);
  auto values = update(5);
  values[kPredictionSum] = 7 * kBatch;
  values[kPredictionSquareSum] = 49 * kBatch;
  for (int i = 0; i < 19; ++i) {
    EXPECT_TRUE(watch.add(values.data()).empty());
  }
  const auto warnings = watch.add(values.data());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].kind, "constant_predictions");
  EXPECT_THAT(warnings[0].text, HasSubstr("all of the last 320 training images were predicted as "
                                          "class 7"));
  EXPECT_THAT(warnings[0].text, HasSubstr("8/255, not 8"));
}

TEST(NumericsWatch, WarnsOfManyZeroAndAnyNonfiniteGradients) {
  NumericsWatch few(kClasses);
  auto values = update(1);
  values[kZeroGradientSum] = 1;  // 1 of 16
  EXPECT_THAT(kinds(few, values, 20), ElementsAre());
  NumericsWatch many(kClasses);
  values[kZeroGradientSum] = 2;
  values[kNonfiniteGradientSum] = 1;
  EXPECT_THAT(kinds(many, values, 20), ElementsAre("zero_gradients", "nonfinite_gradients"));
}

TEST(NumericsWatch, WaitsForEnoughSamplesOfManyClasses) {
  NumericsWatch watch(100);
  auto values = update(std::log(100));
  values[kPredictionSum] = 0;
  values[kPredictionSquareSum] = 0;
  EXPECT_THAT(kinds(watch, values, 62), ElementsAre());  // 992 samples
  EXPECT_THAT(kinds(watch, values, 1), ElementsAre("constant_predictions"));
}

}  // namespace
}  // namespace temper
