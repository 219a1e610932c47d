#include "launch/failure_report.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RankEnd exited(int rank, int code, std::int64_t time = 0) {
  return {.rank = rank, .pid = 100 + rank, .exit_code = code, .nanoseconds = time};
}

RankEnd killed(int rank, int signal, std::int64_t time, bool by_launcher = false) {
  RankEnd end = exited(rank, 0, time);
  end.signal = signal;
  end.beat = {.phase = "attack", .update = 1204};
  end.ended_by_launcher = by_launcher;
  return end;
}

RankEnd reported(int rank, FailureCategory category, std::int64_t time, int code = 1) {
  RankEnd end = exited(rank, code, time);
  end.reported = category;
  end.message = "cannot read class/b.png\nmore";
  end.beat = {.phase = "data", .update = 7};
  return end;
}

int status(const std::vector<RankEnd>& ends, const StopState& stop = {}) {
  return judge(ends, stop).status;
}

int cause(const std::vector<RankEnd>& ends, const StopState& stop = {}) {
  const Verdict verdict = judge(ends, stop);
  return verdict.cause ? verdict.cause->end.rank : -1;
}

TEST(Judge, PeacefulStatuses) {
  EXPECT_EQ(status({exited(0, 0), exited(1, 0)}), 0);
  EXPECT_EQ(status({exited(0, 75), exited(1, 75)}), 75);
  EXPECT_EQ(status({exited(0, 0), exited(1, 75)}), 75);
  EXPECT_EQ(status({exited(0, 124), exited(1, 124)}), 124);
  EXPECT_EQ(status({exited(0, 130), exited(1, 130)}, {.signal = SIGINT}), 130);
  EXPECT_EQ(status({exited(0, 143), exited(1, 75)}, {.signal = SIGTERM}), 143);
  EXPECT_EQ(cause({exited(0, 75), exited(1, 0)}), -1);
}

TEST(Judge, StopThatHadToBeForced) {
  EXPECT_EQ(status({exited(0, 75), killed(1, SIGKILL, 9, true)}, {.signal = SIGTERM}), 143);
  EXPECT_EQ(status({killed(0, SIGINT, 9, true)}, {.signal = SIGINT}), 130);
  EXPECT_EQ(status({killed(0, SIGKILL, 9, true)}, {.signal = SIGUSR1}), 143);
}

TEST(Judge, SecondInterruptMakesNoVictimsACause) {
  const StopState at_once = {.signal = SIGINT, .at_once = true};
  const std::vector<RankEnd> ends = {reported(0, FailureCategory::kLostPeer, 5),
                                     killed(1, SIGKILL, 4, true)};
  EXPECT_EQ(status(ends, at_once), 130);
  EXPECT_EQ(cause(ends, at_once), -1);
}

TEST(Judge, FailureStatuses) {
  EXPECT_EQ(status({exited(0, 3), exited(1, 0)}), 1);
  EXPECT_EQ(status({exited(0, 2), exited(1, 2)}), 2);
  EXPECT_EQ(status({reported(0, FailureCategory::kConfig, 1, 2)}), 2);
  EXPECT_EQ(status({reported(0, FailureCategory::kData, 1, 1)}), 1);
  EXPECT_EQ(status({killed(0, SIGKILL, 1)}), 137);
  EXPECT_EQ(status({killed(0, SIGSEGV, 1)}), 139);
}

TEST(Judge, EarliestCauseWins) {
  EXPECT_EQ(cause({killed(0, SIGKILL, 20), reported(1, FailureCategory::kException, 10)}), 1);
  EXPECT_EQ(cause({killed(0, SIGKILL, 10), reported(1, FailureCategory::kException, 20)}), 0);
}

TEST(Judge, LostPeerIsAVictimEvenIfItWasFirst) {
  const std::vector<RankEnd> ends = {reported(0, FailureCategory::kLostPeer, 1),
                                     killed(1, SIGKILL, 50)};
  const Verdict verdict = judge(ends, {});
  ASSERT_TRUE(verdict.cause);
  EXPECT_EQ(verdict.cause->end.rank, 1);
  EXPECT_EQ(verdict.status, 137);
  ASSERT_EQ(verdict.victims.size(), 1U);
  EXPECT_EQ(verdict.victims[0].rank, 0);
}

TEST(Judge, LostPeerIsTheCauseIfNothingElseIs) {
  EXPECT_EQ(cause({reported(0, FailureCategory::kLostPeer, 2),
                   reported(1, FailureCategory::kLostPeer, 1)}),
            1);
}

TEST(Judge, RankThatLeftEarlyIsToBlameForALostPeer) {
  const std::vector<RankEnd> ends = {reported(0, FailureCategory::kLostPeer, 10), exited(1, 0, 5)};
  const Verdict verdict = judge(ends, {});
  ASSERT_TRUE(verdict.cause);
  EXPECT_EQ(verdict.cause->end.rank, 1);
  EXPECT_THAT(verdict.cause->error, HasSubstr("status 0 while others still needed it"));
  EXPECT_EQ(verdict.status, 1);
  // One that leaves after the loss has done nothing.
  EXPECT_EQ(cause({reported(0, FailureCategory::kLostPeer, 10), exited(1, 0, 15)}), 0);
}

TEST(Judge, TeardownIsNeverACause) {
  const Verdict verdict = judge(
      {killed(0, SIGTERM, 1, true), reported(1, FailureCategory::kException, 30), exited(2, 0, 40)},
      {});
  EXPECT_EQ(verdict.cause->end.rank, 1);
  ASSERT_EQ(verdict.victims.size(), 1U);
  EXPECT_EQ(verdict.victims[0].rank, 0);
}

TEST(Judge, FailureDuringAStopStaysAFailure) {
  EXPECT_EQ(status({exited(0, 75), killed(1, SIGSEGV, 3)}, {.signal = SIGTERM}), 139);
}

TEST(FailureLine, HasThePromisedForms) {
  EXPECT_EQ(failure_line(*judge({exited(0, 0), killed(1, SIGKILL, 1)}, {}).cause, "n2"),
            "rank 1 (pid 101, host n2) killed by SIGKILL (signal 9) in phase attack at update "
            "1204");
  EXPECT_EQ(failure_line(*judge({reported(0, FailureCategory::kData, 1)}, {}).cause, "n2"),
            "rank 0 (pid 100, host n2) failed: cannot read class/b.png in phase data at update 7");
  EXPECT_EQ(failure_line(*judge({exited(0, 3)}, {}).cause, "n2"),
            "rank 0 (pid 100, host n2) failed: ended with status 3 and without a message in phase "
            "start at update 0");
}

TEST(FailureText, HasVictimsAndLastLines) {
  RankEnd dead = killed(1, SIGSEGV, 1);
  dead.last_lines = {"one", "two"};
  const std::string text = failure_text(judge({killed(0, SIGTERM, 2, true), dead}, {}),
                                        {.host = "h", .run_directory = "r"});
  EXPECT_THAT(text, HasSubstr("then rank 0 (pid 100): stopped by the launcher (SIGTERM)"));
  EXPECT_THAT(text, HasSubstr("last lines of rank 1:\n  | one\n  | two\n"));
  EXPECT_THAT(text, HasSubstr("r/failure.json"));
}

TEST(FailureJson, HasItsFields) {
  RankEnd dead = killed(1, SIGKILL, 1);
  dead.last_lines = {"bad \xff byte"};
  const nlohmann::json json = nlohmann::json::parse(failure_json(
      judge({reported(0, FailureCategory::kLostPeer, 2), dead}, {}), {.host = "h", .attempt = 2}));
  EXPECT_EQ(json["category"], "killed from outside");
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["host"], "h");
  EXPECT_EQ(json["pid"], 101);
  EXPECT_TRUE(json["exit_code"].is_null());
  EXPECT_EQ(json["signal"]["name"], "SIGKILL");
  EXPECT_EQ(json["signal"]["number"], 9);
  EXPECT_EQ(json["phase"], "attack");
  EXPECT_EQ(json["update"], 1204);
  EXPECT_EQ(json["status"], 137);
  EXPECT_EQ(json["attempt"], 2);
  EXPECT_EQ(json["last_lines"].size(), 1U);
  EXPECT_FALSE(json["advice"].get<std::string>().empty());
  EXPECT_EQ(json["victims"][0]["category"], "lost peer");
  EXPECT_EQ(json["victims"][0]["exit_code"], 1);
}

}  // namespace
}  // namespace temper
