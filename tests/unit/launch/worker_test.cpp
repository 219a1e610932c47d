#include "temper/launch/worker.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "launch/run_state.h"
#include "launch/shared_page.h"
#include "temper/core/file.h"
#include "temper/core/text.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

TEST(WorkerSignals, FirstRequestStays) {
  const WorkerSignals signals(SecondInterrupt::kIgnore);
  EXPECT_EQ(signals.stop_requested(), StopRequest::kNone);
  ::raise(SIGUSR1);
  EXPECT_EQ(signals.stop_requested(), StopRequest::kCheckpoint);
  ::raise(SIGTERM);
  ::raise(SIGINT);
  ::raise(SIGINT);
  EXPECT_EQ(signals.stop_requested(), StopRequest::kCheckpoint);
}

TEST(WorkerSignals, EachSignalHasItsKind) {
  for (const auto& [number, kind] :
       {std::pair{SIGUSR1, StopRequest::kCheckpoint}, std::pair{SIGTERM, StopRequest::kTerminate},
        std::pair{SIGINT, StopRequest::kInterrupt}}) {
    const WorkerSignals signals(SecondInterrupt::kIgnore);
    ::raise(number);
    EXPECT_EQ(signals.stop_requested(), kind);
  }
}

TEST(WorkerSignals, SecondInterruptEndsAProcessWithoutLauncher) {
  const auto interrupt_twice = [] {
    const WorkerSignals signals(SecondInterrupt::kExit);
    ::raise(SIGTERM);
    ::raise(SIGINT);
    ::raise(SIGINT);
  };
  EXPECT_EXIT(interrupt_twice(), testing::ExitedWithCode(130), "");
}

TEST(WorkerSignals, WithNothingToSaveTheFirstRequestEnds) {
  const auto end_by = [](int number) {
    const Heartbeat heartbeat;
    WorkerSignals signals(SecondInterrupt::kIgnore);
    signals.tell(heartbeat);
    signals.set_nothing_to_save(true);
    ::raise(number);
  };
  EXPECT_EXIT(end_by(SIGUSR1), testing::ExitedWithCode(143), "");
  EXPECT_EXIT(end_by(SIGTERM), testing::ExitedWithCode(143), "");
  EXPECT_EXIT(end_by(SIGINT), testing::ExitedWithCode(130), "");
}

TEST(EarlySignals, AStopEndsTheProcessAndRequestsWait) {
  const auto stop = [] {
    hold_early_signals();
    ::raise(SIGUSR1);
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(143), "");
  const auto request = [] {
    hold_early_signals();
    ::raise(SIGQUIT);
    ::raise(SIGUSR2);
    const WorkerSignals signals(SecondInterrupt::kIgnore);
    ::_exit(signals.saves_requested() == 1 ? 0 : 1);
  };
  EXPECT_EXIT(request(), testing::ExitedWithCode(0), "");
}

TEST(RunState, OnlyARunningRunIsEnded) {
  std::string name = (fs::temp_directory_path() / "temper-state-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  end_running_state(folder, kStateFailed);
  EXPECT_TRUE(fs::is_empty(folder));
  for (const char* state : {"finished", "preempted"}) {
    const std::string text = concat("{\"state\": \"", state, "\"}");
    write_file_atomically(folder / "status.json", text);
    end_running_state(folder, kStateFailed);
    EXPECT_EQ(read_file(folder / "status.json"), text);
  }
  fs::remove_all(folder);
}

// A file system without room for another file: the folder takes none.
TEST(RunState, AFullDiskIsNoObstacle) {
  std::string name = (fs::temp_directory_path() / "temper-state-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  write_file_atomically(folder / "status.json",
                        R"({"state": "running", "eta_seconds": 5.123456789})");
  // In the way of the new file.
  fs::create_directory(folder / concat(".status.json.", ::getpid(), ".tmp"));
  end_running_state(folder, kStateFailed);
  const auto json = nlohmann::json::parse(read_file(folder / "status.json"));
  EXPECT_EQ(json["state"], "failed");
  EXPECT_TRUE(json["eta_seconds"].is_null());
  fs::remove_all(folder);
}

TEST(Heartbeat, KeepsPhaseAndUpdate) {
  Heartbeat heartbeat;
  EXPECT_EQ(heartbeat.beat().phase, "start");
  EXPECT_EQ(heartbeat.beat().nanoseconds, 0);
  heartbeat.set("attack", 12);
  heartbeat.set_phase("save checkpoint");
  const Beat beat = heartbeat.beat();
  EXPECT_EQ(beat.phase, "save checkpoint");
  EXPECT_EQ(beat.update, 12U);
  EXPECT_GT(beat.nanoseconds, 0);
}

TEST(Heartbeat, LongPhaseIsCut) {
  Heartbeat heartbeat;
  heartbeat.set(std::string(40, 'p'), 0);
  EXPECT_EQ(heartbeat.beat().phase, std::string(Heartbeat::kPhaseLength, 'p'));
}

// A reader may give up on a writer that the system stopped in mid-write, but says so.
TEST(Heartbeat, ReaderTakesNoMixtureForWhole) {
  Heartbeat heartbeat;
  heartbeat.set("0", 0);
  const auto expect_consistent = [](const Beat& beat) {
    ASSERT_EQ(beat.phase, std::to_string(beat.update));
  };
  {
    const std::jthread writer([&](const std::stop_token& stop) {
      for (std::uint64_t i = 0; !stop.stop_requested(); ++i) {
        heartbeat.set(std::to_string(i), i);
      }
    });
    for (int i = 0; i < 20'000; ++i) {
      const Beat beat = heartbeat.beat();
      if (beat.whole) {
        ASSERT_NO_FATAL_FAILURE(expect_consistent(beat));
      }
    }
  }
  const Beat last = heartbeat.beat();
  EXPECT_TRUE(last.whole);
  expect_consistent(last);
}

TEST(Heartbeat, BeatOfAWriterKilledInMidWriteIsNotWhole) {
  BeatLine line;
  line.update = 5;
  line.sequence = 3;
  EXPECT_FALSE(read_beat(line).whole);
  line.sequence = 4;
  EXPECT_TRUE(read_beat(line).whole);
  EXPECT_EQ(read_beat(line).update, 5U);
}

class ReportFailure : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "temper-worker-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ::setenv("TORCHELASTIC_ERROR_FILE", (folder_ / "error.json").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(ReportFailure, WritesWhatTorchrunReads) {
  Heartbeat heartbeat;
  heartbeat.set("data", 7);
  report_failure(heartbeat, FailureCategory::kData, "cannot read b.png");
  report_failure(heartbeat, FailureCategory::kException, "a consequence");
  const auto json = nlohmann::json::parse(read_file(folder_ / "error.json"));
  const auto& message = json["message"];
  EXPECT_EQ(message["message"], "cannot read b.png in phase data at update 7");
  EXPECT_THAT(message["extraInfo"]["py_callstack"].get<std::string>(),
              testing::StartsWith("cannot read b.png in phase data at update 7\n#0 "));
  const std::string timestamp = message["extraInfo"]["timestamp"];
  EXPECT_EQ(timestamp.find_first_not_of("0123456789"), std::string::npos);
}

TEST_F(ReportFailure, VictimLeavesTorchrunsFileAlone) {
  report_failure(Heartbeat(), FailureCategory::kLostPeer, "connection closed");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ReportFailure, NeverThrows) {
  ::setenv("TORCHELASTIC_ERROR_FILE", "/proc/none/error.json", 1);
  report_failure(Heartbeat(), FailureCategory::kException, std::string(20'000, 'x'));
  ::setenv("TORCHELASTIC_ERROR_FILE", "", 1);
  report_failure(Heartbeat(), FailureCategory::kException, "text");
}

}  // namespace
}  // namespace temper
