#include "temper/train/progress.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

constexpr RunShape kShape{.epochs = 3, .updates_per_epoch = 10, .samples_per_epoch = 95};

std::vector<std::int64_t> due_updates(const Period& period) {
  std::vector<std::int64_t> updates;
  for (std::int64_t update = 0; update <= kShape.total_updates(); ++update) {
    if (kShape.is_due(period, update)) {
      updates.push_back(update);
    }
  }
  return updates;
}

TEST(RunShape, PeriodsFallOnTheirUpdates) {
  using Unit = Period::Unit;
  EXPECT_EQ(due_updates({1, Unit::kEpochs}), (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_EQ(due_updates({0.5, Unit::kEpochs}), (std::vector<std::int64_t>{5, 10, 15, 20, 25, 30}));
  EXPECT_EQ(due_updates({12, Unit::kUpdates}), (std::vector<std::int64_t>{12, 24}));
  EXPECT_EQ(due_updates({95, Unit::kSamples}), (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_EQ(due_updates({2, Unit::kEpochs}), (std::vector<std::int64_t>{20}));
  EXPECT_TRUE(due_updates({0, Unit::kEpochs}).empty());
}

TEST(RunShape, ThirdsOfAnEpochLoseNone) {
  const RunShape shape{.epochs = 30, .updates_per_epoch = 3, .samples_per_epoch = 3};
  int due = 0;
  for (std::int64_t update = 1; update <= shape.total_updates(); ++update) {
    due += shape.is_due({1.0 / 3, Period::Unit::kEpochs}, update) ? 1 : 0;
  }
  EXPECT_EQ(due, 90);
}

TEST(RunShape, EndsAtTheEarlierLimit) {
  RunShape shape = kShape;
  EXPECT_EQ(shape.last_update(), 30);
  shape.max_updates = 7;
  EXPECT_EQ(shape.last_update(), 7);
  shape.max_updates = 100;
  EXPECT_EQ(shape.last_update(), 30);
}

}  // namespace
}  // namespace temper
