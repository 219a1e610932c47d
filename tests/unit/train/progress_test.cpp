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

constexpr RunShape shape_of(std::int64_t samples, std::int64_t batch) {
  return {.epochs = 4,
          .updates_per_epoch = (samples + batch - 1) / batch,
          .samples_per_epoch = samples,
          .global_batch_size = batch};
}

TEST(Progress, IsUnchangedForTheSameUpdates) {
  const Progress converted = convert_progress({.update = 7, .samples = 50, .validated_update = 5},
                                              shape_of(37, 8), shape_of(37, 8));
  EXPECT_EQ(converted.update, 7);
  EXPECT_EQ(converted.validated_update, 5);
}

TEST(Progress, IsCountedInUpdatesOfAnotherBatchWithoutLosingSamples) {
  const auto update = [](std::int64_t before, const RunShape& from, const RunShape& to) {
    return convert_progress({.update = before, .samples = 9}, from, to).update;
  };
  const RunShape eights = shape_of(37, 8);     // 5 updates an epoch
  const RunShape sixteens = shape_of(37, 16);  // 3
  const RunShape fives = shape_of(37, 5);      // 8
  EXPECT_EQ(update(0, eights, sixteens), 0);
  EXPECT_EQ(update(5, eights, sixteens), 3);             // a whole epoch
  EXPECT_EQ(update(7, eights, sixteens), 4);             // 16 samples
  EXPECT_EQ(update(8, eights, sixteens), 4);             // 24 samples: 8 of them again
  EXPECT_EQ(update(8, eights, fives), 8 + 4);            // 24 samples: 4 of them again
  EXPECT_EQ(update(9, eights, shape_of(20, 8)), 3 + 2);  // less data: the epoch's last update
  EXPECT_EQ(convert_progress({.update = 7, .samples = 53}, eights, sixteens).samples, 53);
}

TEST(Progress, RemembersThatItsUpdateWasValidated) {
  const auto validated = [](std::int64_t update) {
    return convert_progress({.update = 5, .validated_update = update}, shape_of(37, 8),
                            shape_of(37, 16))
        .validated_update;
  };
  EXPECT_EQ(validated(5), 3);
  EXPECT_EQ(validated(4), 0);
}

// An epoch is a pass over the training data alone, whatever comes beside them.
TEST(Progress, DoesNotCountExtraDataAsPartOfTheEpoch) {
  RunShape tens{.updates_per_epoch = 6, .samples_per_epoch = 58, .global_batch_size = 10};
  tens.extra_batch_size = 3;  // 7 others an update
  RunShape twenties{.updates_per_epoch = 3, .samples_per_epoch = 56, .global_batch_size = 20};
  twenties.extra_batch_size = 5;  // 15 others
  const auto update = [](std::int64_t before, const RunShape& from, const RunShape& to) {
    return convert_progress({.update = before}, from, to).update;
  };
  EXPECT_EQ(update(2, tens, twenties), 0);  // 14 of them: fewer than an update holds now
  EXPECT_EQ(update(3, tens, twenties), 1);
  RunShape without{.updates_per_epoch = 4, .samples_per_epoch = 40, .global_batch_size = 10};
  EXPECT_EQ(update(3, tens, without), 2);  // 21 of 40
}

// With four replays update 9 of 12 lies in the third batch.
TEST(Progress, GoesBackToTheBeginningOfAReplayedBatch) {
  const RunShape replayed{.updates_per_epoch = 12, .global_batch_size = 10, .updates_per_batch = 4};
  const RunShape once{.updates_per_epoch = 3, .global_batch_size = 10};
  EXPECT_EQ(convert_progress({.update = 12 + 9}, replayed, once).update, 3 + 2);
  EXPECT_EQ(convert_progress({.update = 3 + 2}, once, replayed).update, 12 + 8);
}

}  // namespace
}  // namespace temper
