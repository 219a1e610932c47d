// Runs a launcher as a program of its own and looks at all that it leaves: status, console, logs,
// report, processes. Every wait ends by an event; the test's time-out is the only clock.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "temper/core/file.h"
#include "temper/core/text.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr const char* kLongGrace = "60000";
constexpr const char* kShortGrace = "50";
constexpr const char* kHangTimeout = "2500";  // longer than a start on a busy machine

struct Result {
  int status = 0;  // as waitpid gives it
  std::string output;
  std::string error;
  [[nodiscard]] int exit_code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
};

// A program with its standard output and error behind pipes.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments) {
    std::array<int, 2> output{};
    std::array<int, 2> error{};
    EXPECT_EQ(::pipe2(output.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(error.data(), O_CLOEXEC), 0);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) {
      pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(output[1], STDOUT_FILENO);
      ::dup2(error[1], STDERR_FILENO);
      ::execv("/proc/self/exe", pointers.data());
      ::_exit(98);
    }
    ::close(output[1]);
    ::close(error[1]);
    output_ = output[0];
    error_ = error[0];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    ::close(output_);
    ::close(error_);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

  Result wait() {
    Result result;
    std::array<pollfd, 2> entries = {{{output_, POLLIN, 0}, {error_, POLLIN, 0}}};
    while (entries[0].fd >= 0 || entries[1].fd >= 0) {
      ::poll(entries.data(), entries.size(), -1);
      read_into(entries[0], result.output);
      read_into(entries[1], result.error);
    }
    ::waitpid(pid_, &result.status, 0);
    return result;
  }

 private:
  static void read_into(pollfd& entry, std::string& text) {
    if (entry.fd < 0 || entry.revents == 0) {
      return;
    }
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(entry.fd, buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else {
      entry.fd = -1;
    }
  }

  pid_t pid_ = -1;
  int output_ = -1;
  int error_ = -1;
};

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

void wait_for_file(const fs::path& path) {
  while (!fs::exists(path)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// False for a process that has ended, too.
bool is_pending(pid_t process, int signal) {
  const fs::path status = concat("/proc/", process, "/status");
  if (!fs::exists(status)) {
    return false;
  }
  const std::string text = read_file(status);
  const std::size_t start = text.find("ShdPnd:\t");
  return start != std::string::npos &&
         (std::stoull(text.substr(start + 8, 16), nullptr, 16) >> (signal - 1) & 1U) != 0;
}

class Spawn : public testing::Test {
 protected:
  void SetUp() override {
    // Orphans of a killed launcher come to this process, which can then wait for their end.
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    std::string name = (fs::temp_directory_path() / "temper-spawn-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    run_ = name;
  }
  void TearDown() override {
    expect_nothing_left();
    fs::remove_all(run_);
  }

  [[nodiscard]] std::vector<std::string> command(const char* scenario, const char* grace,
                                                 const char* peer_grace) const {
    return {"subject", "--subject", run_.string(), "2", grace, peer_grace, scenario};
  }

  // With --max-restarts and, if it is given, --hang-timeout in milliseconds.
  Result launch_again(const char* scenario, const char* restarts,
                      const char* hang_timeout = nullptr) {
    std::vector<std::string> arguments = command(scenario, kLongGrace, kShortGrace);
    arguments.emplace_back(restarts);
    if (hang_timeout != nullptr) {
      arguments.emplace_back(hang_timeout);
    }
    return Program(arguments).wait();
  }

  Result launch(const char* scenario, const char* peer_grace = kLongGrace) {
    return Program(command(scenario, kLongGrace, peer_grace)).wait();
  }

  // Starts, waits until both ranks are at work (`ready` is a file of each), sends the signals.
  Result launch_and_signal(const char* scenario, const char* ready, const char* grace,
                           const std::vector<int>& signals) {
    Program program(command(scenario, grace, kLongGrace));
    wait_for_file(run_ / concat(ready, 0));
    wait_for_file(run_ / concat(ready, 1));
    for (const int signal : signals) {
      ::kill(program.pid(), signal);
    }
    return program.wait();
  }

  // The launcher has reaped its ranks, so their numbers are free; no orphan came to us either.
  void expect_nothing_left() const {
    for (const char* name : {"pid-0", "pid-1"}) {
      if (fs::exists(run_ / name)) {
        EXPECT_NE(::kill(std::stoi(read_file(run_ / name)), 0), 0) << name << " still runs";
      }
    }
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "an orphan was left";
  }

  [[nodiscard]] nlohmann::json report() const {
    return nlohmann::json::parse(read_file(run_ / "failure.json"));
  }
  [[nodiscard]] std::string log(int rank, int attempt = 1) const {
    return read_file(run_ / concat("logs/attempt-", attempt, "/rank-", rank, ".log"));
  }
  // A line of the report, with the pid that the rank itself has written down.
  [[nodiscard]] std::string line_start(int rank) const {
    return concat("rank ", rank, " (pid ", read_file(run_ / concat("pid-", rank)), ", host ",
                  host_name(), ") ");
  }

  fs::path run_;
};

TEST_F(Spawn, AllDone) {
  const Result result = launch("done");
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_EQ(result.error, "");
  EXPECT_FALSE(fs::exists(run_ / "failure.json"));
}

TEST_F(Spawn, RanksMeetAtTheStore) { EXPECT_EQ(launch("meet").exit_code(), 0); }

TEST_F(Spawn, RanksGetTheirEnvironment) {
  ::setenv("TORCHELASTIC_RUN_ID", "foreign", 1);
  const Result result = launch("environment");
  ::unsetenv("TORCHELASTIC_RUN_ID");
  EXPECT_EQ(result.output,
            "rank 0 of 2, local 0 of 2, omp 1, extra given, elastic unset, arguments 7\n");
  EXPECT_EQ(log(1), "rank 1 of 2, local 1 of 2, omp 1, extra given, elastic unset, arguments 7\n");
}

TEST_F(Spawn, WithoutMemoryTheKernelTakesARankAndNotTheLauncher) {
  const std::string own = read_file("/proc/self/oom_score_adj");
  EXPECT_EQ(launch("memory_score").output, own == "0\n" ? "score 300\n" : "score " + own);
}

TEST_F(Spawn, ConsoleShowsRankZeroAndWarnings) {
  const Result result = launch("lines");
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_EQ(result.output, "line of rank 0\n10%\r20%\r\x1b[2Kbar\nin two pieces\nwithout an end\n");
  EXPECT_THAT(result.error, HasSubstr("warning: careful, says 0\n"));
  EXPECT_THAT(result.error, HasSubstr(concat("[", host_name(), ":1] warning: careful, says 1\n")));
}

TEST_F(Spawn, LogsHoldLinesButNoProgress) {
  static_cast<void>(launch("lines"));
  for (const int rank : {0, 1}) {
    const std::string text = log(rank);
    EXPECT_THAT(text, HasSubstr(concat("line of rank ", rank, "\n")));
    EXPECT_THAT(text, HasSubstr(concat("warning: careful, says ", rank, "\n")));
    EXPECT_THAT(text, HasSubstr("\nin two pieces\n"));
    EXPECT_THAT(text, HasSubstr("\nwithout an end\n"));
    EXPECT_THAT(text, Not(HasSubstr("10%")));
    EXPECT_THAT(text, Not(HasSubstr("bar")));
  }
}

TEST_F(Spawn, ExceptionOfOneRankEndsAll) {
  const Result result = launch("exception");
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.error,
              HasSubstr(concat("\n", line_start(1),
                               "failed: division by zero in phase attack at update 7\nframe 1\n")));
  const nlohmann::json json = report();
  EXPECT_EQ(json["category"], "exception");
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["phase"], "attack");
  EXPECT_EQ(json["update"], 7);
  EXPECT_EQ(json["last_lines"], nlohmann::json({"about to fail"}));
}

TEST_F(Spawn, ConfigurationErrorIsStatusTwo) {
  const Result result = launch("config");
  EXPECT_EQ(result.exit_code(), 2);
  EXPECT_THAT(result.error, HasSubstr("failed: epsilon is 8 in phase attack"));
  EXPECT_EQ(report()["category"], "configuration");
}

TEST_F(Spawn, BareExitStatusIsNamed) {
  const Result result = launch("exit3");
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.error, HasSubstr(line_start(1) + "failed: ended with status 3"));
  EXPECT_EQ(report()["exit_code"], 3);
}

TEST_F(Spawn, KilledRankIsNamed) {
  const Result result = launch("kill");
  EXPECT_EQ(result.exit_code(), 137);
  EXPECT_THAT(
      result.error,
      HasSubstr(line_start(1) + "killed by SIGKILL (signal 9) in phase attack at update 7\n"));
  EXPECT_EQ(report()["category"], "killed from outside");
  EXPECT_EQ(report()["signal"]["number"], 9);
}

TEST_F(Spawn, CrashIsNamed) {
  const Result result = launch("segv");
  EXPECT_EQ(result.exit_code(), 139);
  EXPECT_THAT(result.error, HasSubstr(line_start(1) + "killed by SIGSEGV (signal 11)"));
  EXPECT_EQ(report()["category"], "crash signal");
}

TEST_F(Spawn, RankThatIgnoresTheStopIsKilled) {
  const Result result = launch("stubborn", kShortGrace);
  EXPECT_EQ(result.exit_code(), 137);
  EXPECT_EQ(report()["rank"], 1);
  EXPECT_EQ(report()["victims"][0]["rank"], 0);
  EXPECT_EQ(report()["victims"][0]["category"], "stopped by launcher");
}

TEST_F(Spawn, RankThatLeftIsToBlame) {
  const Result result = launch("leaver");
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.error, HasSubstr(line_start(1) + "failed: ended with status 0 while others"));
  EXPECT_EQ(report()["victims"][0]["category"], "lost peer");
}

TEST_F(Spawn, VictimThatEndsFirstIsNotTheCause) {
  const Result result = launch("victim_first");
  EXPECT_EQ(result.exit_code(), 137);
  EXPECT_EQ(report()["rank"], 1);
}

TEST_F(Spawn, ChildrenOfARankEndWithIt) {
  EXPECT_EQ(launch("child").exit_code(), 137);
  const pid_t child = std::stoi(read_file(run_ / "pid-child"));
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(Spawn, AttemptsKeepEarlierLogs) {
  EXPECT_EQ(launch("kill").exit_code(), 137);
  EXPECT_EQ(launch("environment").exit_code(), 0);
  EXPECT_FALSE(fs::exists(run_ / "failure.json"));
  EXPECT_TRUE(fs::exists(run_ / "logs/attempt-1/failure.json"));
  EXPECT_THAT(log(0, 2), HasSubstr("rank 0 of 2"));
}

TEST_F(Spawn, StopSignalsReachTheRanks) {
  EXPECT_EQ(launch_and_signal("train", "pid-", kLongGrace, {SIGTERM}).exit_code(), 75);
  EXPECT_FALSE(fs::exists(run_ / "failure.json"));
}

TEST_F(Spawn, RepeatedSignalsChangeNothing) {
  EXPECT_EQ(launch_and_signal("train", "pid-", kLongGrace, {SIGUSR1, SIGTERM, SIGTERM, SIGTERM})
                .exit_code(),
            75);
}

TEST_F(Spawn, FirstInterruptSaves) {
  const Result result = launch_and_signal("train", "pid-", kLongGrace, {SIGINT});
  EXPECT_EQ(result.exit_code(), 130);
  EXPECT_THAT(result.error, HasSubstr("a second Ctrl-C stops at once"));
}

TEST_F(Spawn, SecondInterruptKills) {
  Program program(command("deaf", kLongGrace, kLongGrace));
  wait_for_file(run_ / "deaf-0");
  wait_for_file(run_ / "deaf-1");
  ::kill(program.pid(), SIGINT);
  // Two pending SIGINT are one: the second goes out when the first has been taken.
  while (is_pending(program.pid(), SIGINT)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(program.pid(), SIGINT);
  const Result result = program.wait();
  EXPECT_EQ(result.exit_code(), 130);
  EXPECT_THAT(result.error, HasSubstr("second Ctrl-C"));
  EXPECT_FALSE(fs::exists(run_ / "failure.json"));
}

TEST_F(Spawn, SecondInterruptAfterTheSaveSaysSo) {
  Program program(command("lingers", kLongGrace, kLongGrace));
  wait_for_file(run_ / "trains-0");
  wait_for_file(run_ / "trains-1");
  ::kill(program.pid(), SIGINT);
  wait_for_file(run_ / "saved-0");
  wait_for_file(run_ / "saved-1");
  ::kill(program.pid(), SIGINT);
  const Result result = program.wait();
  EXPECT_EQ(result.exit_code(), 130);
  EXPECT_THAT(result.error, HasSubstr("stopped at once, the checkpoint is saved"));
}

TEST_F(Spawn, GraceEndsInStatus143) {
  const Result result = launch_and_signal("deaf", "deaf-", kShortGrace, {SIGTERM});
  EXPECT_EQ(result.exit_code(), 143);
  EXPECT_THAT(result.error, HasSubstr("did not stop in time and is killed"));
}

TEST_F(Spawn, RankThatDiesOfTheStopDoesNotLeaveTheOthersWaiting) {
  Program program(command("early", kLongGrace, kShortGrace));
  wait_for_file(run_ / "deaf-0");
  wait_for_file(run_ / "deaf-1");
  ::kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.wait().exit_code(), 143);
}

TEST_F(Spawn, NothingOutlivesAKilledLauncher) {
  for (const char* scenario : {"train", "deaf"}) {
    Program program(command(scenario, kLongGrace, kLongGrace));
    const char* ready = std::string_view(scenario) == "deaf" ? "deaf-" : "pid-";
    wait_for_file(run_ / concat(ready, 0));
    wait_for_file(run_ / concat(ready, 1));
    ::kill(program.pid(), SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(program.wait().status));
    int orphans = 0;
    while (::waitpid(-1, nullptr, 0) > 0) {
      ++orphans;
    }
    EXPECT_EQ(orphans, 2) << scenario;
    fs::remove(run_ / "pid-0");
    fs::remove(run_ / "pid-1");
  }
}

TEST_F(Spawn, RunDirectoryInTheWayIsAnErrorBeforeRanksStart) {
  write_file_atomically(run_ / "logs", "a file");
  const Result result = launch("done");
  EXPECT_EQ(result.exit_code(), 99);
  EXPECT_THAT(result.error, HasSubstr("cannot make"));
  EXPECT_FALSE(fs::exists(run_ / "pid-0"));
}

TEST_F(Spawn, AStoppedRankIsFoundAndShowsItsStacks) {
  const Result result = launch_again("stopped", "0", kHangTimeout);
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.error, HasSubstr(line_start(1) + "failed: stopped by a signal (state T), no "
                                                      "progress for"));
  EXPECT_THAT(result.error,
              HasSubstr("rank 0 waits in #0 all_reduce_sum float64 x 42 (update summary)"));
  EXPECT_EQ(report()["category"], "hang");
  EXPECT_THAT(log(1), HasSubstr("stack of thread"));
  EXPECT_THAT(log(0), HasSubstr("stack of thread"));
  EXPECT_THAT(result.error, Not(HasSubstr("stack of thread"))) << "stacks are for the logs";
}

TEST_F(Spawn, AnEndlessLoopIsFoundAndShowsAllThreads) {
  const Result result = launch_again("endless", "0", kHangTimeout);
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.error, HasSubstr(line_start(1) + "failed: no progress for"));
  EXPECT_EQ(report()["category"], "hang");
  EXPECT_EQ(report()["rank"], 1);
  const std::string text = log(1);  // the main thread and the one of ParentWatchdog
  std::size_t stacks = 0;
  for (std::size_t at = text.find("stack of thread"); at != std::string::npos;
       at = text.find("stack of thread", at + 1)) {
    ++stacks;
  }
  EXPECT_EQ(stacks, 2U) << text;
}

TEST_F(Spawn, ARankThatLeftACollectiveOutIsBlamed) {
  const Result result = launch_again("left_out", "0", kHangTimeout);
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.error, HasSubstr(line_start(1) + "failed: has begun 1 collectives, others 2"));
  EXPECT_THAT(result.error, HasSubstr("waits in #1 broadcast uint8 x 5 (text)"));
}

TEST_F(Spawn, AFailureThatCanGoAwayIsTriedAgain) {
  const Result result = launch_again("fails_twice", "3");
  EXPECT_EQ(result.exit_code(), 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("launcher: restart 1 of 3"));
  EXPECT_THAT(result.error, HasSubstr("launcher: restart 2 of 3"));
  EXPECT_EQ(log(0, 1), "attempt with restart count 0\n");
  EXPECT_EQ(log(0, 3), "attempt with restart count 2\n");
  EXPECT_TRUE(fs::exists(run_ / "logs/attempt-1/failure.json"));
  EXPECT_FALSE(fs::exists(run_ / "failure.json")) << "the run has ended well";
}

TEST_F(Spawn, RestartsAreLimited) {
  const Result result = launch_again("fails_twice", "1");
  EXPECT_EQ(result.exit_code(), 137);
  EXPECT_THAT(result.error, HasSubstr("launcher: no restart: --max-restarts 1 is used up"));
}

TEST_F(Spawn, NeverTwiceAtTheSameUpdate) {
  const Result result = launch_again("fails_at_the_same_place", "5");
  EXPECT_EQ(result.exit_code(), 137);
  EXPECT_THAT(result.error, HasSubstr("launcher: no restart: it failed twice at update 7"));
  EXPECT_FALSE(fs::exists(run_ / "logs/attempt-3"));
}

TEST_F(Spawn, WhatComesAgainIsNotTriedAgain) {
  const Result result = launch_again("config", "5");
  EXPECT_EQ(result.exit_code(), 2);
  EXPECT_THAT(result.error, HasSubstr("category configuration would come again"));
  EXPECT_FALSE(fs::exists(run_ / "logs/attempt-2"));
}

TEST_F(Spawn, TheOthersAreToldWhy) {
  launch("ask_why");
  EXPECT_THAT(log(0), HasSubstr(concat("told: ", line_start(1), "killed by SIGKILL (signal 9)")));
}

TEST_F(Spawn, AKillFromOutsideGetsAVerdict) {
  const Result result = launch("kill");
  EXPECT_EQ(report()["category"], "killed from outside");
  EXPECT_THAT(result.error, HasSubstr("verdict: "));
  EXPECT_THAT(result.error, HasSubstr("rank 1 peak "));
  EXPECT_GT(report()["peak_memory_bytes"], 1 << 20);
}

TEST_F(Spawn, RunawaysOfARankAreEnded) {
  launch("runaway");
  EXPECT_NE(::kill(std::stoi(read_file(run_ / "pid-child")), 0), 0);
}

TEST_F(Spawn, SaveRequestsReachTheRanksAndStopNothing) {
  const Result result = launch_and_signal("save_request", "waits-", kLongGrace, {SIGUSR2});
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_EQ(result.output, "saved\n");
  EXPECT_EQ(log(1), "saved\n");
}

// A rank that still loads its libraries has no handlers.
TEST_F(Spawn, RequestsWaitForARankThatLoads) {
  Program program(command("late_handlers", kLongGrace, kLongGrace));
  wait_for_file(run_ / "pid-0");
  wait_for_file(run_ / "pid-1");
  ::kill(program.pid(), SIGUSR2);
  ::kill(program.pid(), SIGQUIT);
  for (const char* name : {"pid-0", "pid-1"}) {
    const pid_t rank = std::stoi(read_file(run_ / name));
    for (const int signal : {SIGUSR2, SIGQUIT}) {
      while (!is_pending(rank, signal) && ::kill(rank, 0) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  write_file_atomically(run_ / "go", "");
  const Result result = program.wait();
  EXPECT_EQ(result.exit_code(), 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("saved\n"));
  EXPECT_THAT(log(1), HasSubstr("saved\n"));
  EXPECT_THAT(log(1), HasSubstr("stack of thread"));
}

TEST_F(Spawn, StopsBeforeAnythingCouldBeSavedAre143) {
  for (const int signal : {SIGUSR1, SIGTERM}) {
    const Result result = launch_and_signal("loads", "loads-", kLongGrace, {signal});
    EXPECT_EQ(result.exit_code(), 143);
    EXPECT_THAT(result.error, HasSubstr("stopped before there was anything to save"));
    fs::remove(run_ / "loads-0");
    fs::remove(run_ / "loads-1");
  }
  EXPECT_FALSE(fs::exists(run_ / "failure.json"));
}

TEST_F(Spawn, StopOfOneRankThatLoadsStopsTheOthers) {
  for (const auto& [signal, status] : {std::pair{SIGUSR1, 143}, std::pair{SIGINT, 130}}) {
    Program program(command("waits_for_a_load", kLongGrace, kLongGrace));
    wait_for_file(run_ / "loads-0");
    wait_for_file(run_ / "loads-1");
    ::kill(std::stoi(read_file(run_ / "pid-1")), signal);
    const Result result = program.wait();
    EXPECT_EQ(result.exit_code(), status) << result.error;
    EXPECT_THAT(result.error,
                HasSubstr("rank 1 was asked to stop before there was anything to save"));
    EXPECT_FALSE(fs::exists(run_ / "failure.json"));
    fs::remove(run_ / "loads-0");
    fs::remove(run_ / "loads-1");
  }
}

TEST_F(Spawn, StatusSaysThatARunHasFailed) {
  EXPECT_EQ(launch("running_kill").exit_code(), 137);
  const nlohmann::json json = nlohmann::json::parse(read_file(run_ / "status.json"));
  EXPECT_EQ(json["state"], "failed");
  EXPECT_TRUE(json["eta_seconds"].is_null());
}

TEST_F(Spawn, StatusSaysThatARunWasStopped) {
  EXPECT_EQ(launch_and_signal("running_deaf", "deaf-", kShortGrace, {SIGTERM}).exit_code(), 143);
  EXPECT_EQ(nlohmann::json::parse(read_file(run_ / "status.json"))["state"], "stopped");
}

}  // namespace
}  // namespace temper
