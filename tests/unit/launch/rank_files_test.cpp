#include "temper/launch/rank_files.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "launch/attempt.h"
#include "launch/crash_text.h"
#include "launch/stack_trace.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/log.h"
#include "temper/launch/worker.h"

namespace temper {

// Outside the anonymous namespace: its name is looked for in a stack.
[[gnu::noinline]] void throw_from_here(const std::string& text) { throw DataError(text); }

namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

class RankFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "temper-files-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    ::setenv("TORCHELASTIC_ERROR_FILE", (root_ / "error.json").c_str(), 1);
    heartbeat_.set("attack", 41);
  }
  void TearDown() override {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    configure_log(LogLevel::kInfo, "");
    fs::remove_all(root_);
  }

  [[nodiscard]] nlohmann::json read(const fs::path& name) const {
    return nlohmann::json::parse(read_file(root_ / name));
  }
  [[nodiscard]] std::string call_stack() const {
    return read("error.json").at("message").at("extraInfo").at("py_callstack");
  }
  void open(RankFiles& files) const { files.open(root_, start_attempt(root_).number); }
  void fail(FailureCategory category, const std::string& text) {
    Heartbeat beats;  // a report counts once for each
    beats.set("attack", 41);
    try {
      throw_from_here(text);
    } catch (const DataError& error) {
      report_failure(beats, category, error.what());
    }
  }

  fs::path root_;
  RankEnvironment environment_{.rank = 3, .world_size = 4, .launcher = LauncherKind::kTorchrun};
  Heartbeat heartbeat_;
};

TEST_F(RankFilesTest, TraceIsThatOfTheThrow) {
  const RankFiles files(environment_, heartbeat_);
  fail(FailureCategory::kData, "bad \"b.png\"");
  EXPECT_THAT(call_stack(),
              testing::ContainsRegex("bad \"b.png\" in phase attack at update 41\n(#0 "
                                     "[^\n]*asan[^\n]*\n)?#[01] temper::throw_from_here.* \\+0x"));
  const std::string time = read("error.json").at("message").at("extraInfo").at("timestamp");
  EXPECT_THAT(time, testing::MatchesRegex("[0-9]+"));
}

TEST_F(RankFilesTest, TraceSurvivesTheWayToAnotherThread) {
  std::exception_ptr carried;
  std::thread([&] {
    try {
      throw_from_here("x");
    } catch (const DataError&) {
      carried = std::current_exception();
    }
  }).join();
  try {
    std::rethrow_exception(carried);
  } catch (const DataError&) {
    EXPECT_THAT(trace_of_current_exception(),
                testing::ContainsRegex("^(#0 [^\n]*asan[^\n]*\n)?#[01] temper::throw_from_here"));
  }
}

TEST_F(RankFilesTest, LogAndFailureLieInTheRunDirectory) {
  RankFiles files(environment_, heartbeat_);
  open(files);
  log_warning("something odd");
  fail(FailureCategory::kData, "bad b.png");
  const nlohmann::json failure = read("failure.json");
  EXPECT_EQ(failure.at("category"), "data");
  EXPECT_EQ(failure.at("rank"), 3);
  EXPECT_THAT(failure.at("line").get<std::string>(),
              HasSubstr("failed: bad b.png in phase attack at update 41"));
  EXPECT_THAT(failure.at("last_lines").at(0).get<std::string>(), HasSubstr("something odd"));
  EXPECT_THAT(read_file(root_ / "logs/attempt-1/rank-3.log"), HasSubstr("something odd"));
}

TEST_F(RankFilesTest, FirstCauseStaysAndReplacesALostPeer) {
  RankFiles files(environment_, heartbeat_);
  open(files);
  fail(FailureCategory::kLostPeer, "connection closed");
  EXPECT_EQ(read("failure.json").at("category"), "lost peer");
  EXPECT_FALSE(fs::exists(root_ / "error.json"));  // it could win over the cause's
  fail(FailureCategory::kData, "first");
  fail(FailureCategory::kException, "second");
  fail(FailureCategory::kLostPeer, "third");
  EXPECT_EQ(read("failure.json").at("error"), "first");
}

void crash(const fs::path& root, const RankEnvironment& environment, const Heartbeat& heartbeat) {
  RankFiles files(environment, heartbeat);
  files.open(root, start_attempt(root).number);
  ::raise(SIGSEGV);
}

TEST_F(RankFilesTest, CrashLeavesItsStackEverywhere) {
  EXPECT_EXIT(crash(root_, environment_, heartbeat_), testing::KilledBySignal(SIGSEGV),
              "rank 3 crashes by signal 11, stack:");
  EXPECT_THAT(
      call_stack(),
      testing::ContainsRegex("rank 3 \\(pid [0-9]+, host .*\\) killed by SIGSEGV \\(signal 11\\) "
                             "in phase attack at update 41\n#0 "));
  EXPECT_THAT(call_stack(), HasSubstr("RankFilesTest_CrashLeavesItsStackEverywhere"));
  const nlohmann::json failure = read("failure.json");
  EXPECT_EQ(failure.at("category"), "crash signal");
  EXPECT_EQ(failure.at("update"), 41);
  EXPECT_EQ(failure.at("phase"), "attack");
  EXPECT_EQ(failure.at("signal").at("name"), "SIGSEGV");
  const std::string time = read("error.json").at("message").at("extraInfo").at("timestamp");
  EXPECT_LT(std::stoll(time), 1LL << 40);
}

void leave_uncaught(const RankEnvironment& environment, const Heartbeat& heartbeat) {
  const RankFiles files(environment, heartbeat);
  std::thread([] { throw_from_here("from a thread"); }).join();
}

TEST_F(RankFilesTest, TerminateTellsTheException) {
  EXPECT_EXIT(leave_uncaught(environment_, heartbeat_), testing::KilledBySignal(SIGABRT),
              "nobody caught: from a thread");
  EXPECT_THAT(call_stack(), HasSubstr("nobody caught: from a thread"));
  EXPECT_THAT(call_stack(), HasSubstr("temper::throw_from_here"));
}

TEST(CrashText, MarksAreReplacedAndEscaped) {
  static FixedText text;
  text.clear();
  complete(text,
           concat("{\"a\": \"@PHASE@\", \"b\": ", kUpdateMark, ", \"c\": \"", kTimeMark,
                  "\", \"d\": \"@STACK@\"}"),
           {.phase = "save \"x\"", .update = 7, .seconds = 1795960888, .stack = "#0 a\n#1 b\\"});
  const nlohmann::json json = nlohmann::json::parse(text.text());
  EXPECT_EQ(json.at("a"), "save \"x\"");
  EXPECT_EQ(json.at("b"), 7);
  EXPECT_EQ(json.at("c"), "1795960888");
  EXPECT_EQ(json.at("d"), "#0 a\n#1 b\\");
}

}  // namespace
}  // namespace temper
