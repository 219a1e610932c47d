#include "launch/hang_watch.h"

#include <gmock/gmock.h>
#include <unistd.h>

namespace temper {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::chrono::seconds kTimeout{10};
constexpr std::int64_t kNow = 100 * kSecond;

RankActivity active(int rank, std::int64_t seconds_ago, std::uint64_t begun = 0,
                    std::uint64_t ended = 0) {
  return {.rank = rank,
          .beat = {.phase = "attack", .update = 7, .nanoseconds = kNow - seconds_ago * kSecond},
          .collective = {.begun = begun,
                         .ended = ended,
                         .kind = "all_reduce_sum float64",
                         .numel = 42,
                         .purpose = "update summary"},
          .state = 'S'};
}

std::optional<Hang> find(const std::vector<RankActivity>& ranks) {
  return find_hang(ranks, kNow, kTimeout);
}

TEST(FindHang, MovingRanksAreNone) {
  EXPECT_FALSE(find({active(0, 1), active(1, 9)}));
  EXPECT_FALSE(find({}));
}

TEST(FindHang, ARankWithoutABeatIsNotJudged) {
  RankActivity unborn = active(1, 0);
  unborn.beat.nanoseconds = 0;
  EXPECT_FALSE(find({active(0, 1), unborn}));
}

TEST(FindHang, BlamesTheOldestOutsideOfACollective) {
  const auto hang = find({active(0, 30, 5, 4), active(1, 11, 4, 4), active(2, 12, 4, 4)});
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 2);
  EXPECT_FALSE(hang->stopped);
  EXPECT_THAT(hang->text, HasSubstr("no progress for 12.0 s"));
  EXPECT_THAT(hang->text, HasSubstr("rank 0 waits in #4 all_reduce_sum float64 x 42"));
}

TEST(FindHang, AStoppedRankComesFirst) {
  RankActivity stopped = active(1, 11, 5, 4);
  stopped.state = 'T';
  const auto hang = find({active(0, 40), stopped});
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1);
  EXPECT_TRUE(hang->stopped);
  EXPECT_THAT(hang->text, HasSubstr("stopped by a signal (state T)"));
  stopped.beat.nanoseconds = kNow;
  EXPECT_EQ(find({active(0, 40), stopped})->rank, 0) << "it was stopped a moment ago";
}

TEST(FindHang, AnUnheardRankIsNotCalledStopped) {
  RankActivity unheard = active(1, 11);
  unheard.state = kUnheardState;
  const auto hang = find({active(0, 1), unheard});
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->text, HasSubstr("not heard from"));
  EXPECT_THAT(hang->text, Not(HasSubstr("state T")));
}

TEST(FindHang, WaitingForARankThatMovesIsNone) {
  EXPECT_FALSE(find({active(0, 40, 5, 4), active(1, 2, 4, 4)}));
}

TEST(FindHang, BlamesTheRankThatLeftACollectiveOut) {
  const auto hang = find({active(0, 12, 8, 7), active(1, 11, 7, 6), active(2, 13, 8, 7)});
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1);
  EXPECT_THAT(hang->text, HasSubstr("has begun 7 collectives, others 8"));
  EXPECT_THAT(hang->text, HasSubstr("rank 0, 2 wait in #7"));
}

TEST(FindHang, NobodyLeftOneOut) {
  const auto hang = find({active(0, 12, 8, 7), active(1, 11, 8, 7)});
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->text, HasSubstr("network"));
}

TEST(Process, StateAndParent) {
  EXPECT_EQ(process_state(::getpid()), 'R');
  EXPECT_EQ(parent_of(::getpid()), ::getppid());
  EXPECT_EQ(process_state(-1), '?');
  EXPECT_EQ(parent_of(-1), 0);
}

}  // namespace
}  // namespace temper
