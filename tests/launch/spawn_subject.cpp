#include "launch/spawn_subject.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/dist/store.h"
#include "temper/launch/environment.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/launcher.h"
#include "temper/launch/start_barrier.h"
#include "temper/launch/worker.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

struct Subject {
  RankEnvironment environment;
  Heartbeat heartbeat = Heartbeat::from_environment();
  WorkerSignals signals{SecondInterrupt::kIgnore};
  int argument_count = 0;
  char** arguments = nullptr;

  [[nodiscard]] int rank() const { return environment.rank; }
  [[nodiscard]] fs::path file(const std::string& name) const {
    return fs::path(environment.run_directory) / name;
  }
};

void pause_a_little() { std::this_thread::sleep_for(milliseconds(5)); }

StopRequest wait_for_stop(const Subject& subject) {
  while (subject.signals.stop_requested() == StopRequest::kNone) {
    pause_a_little();
  }
  return subject.signals.stop_requested();
}

[[noreturn]] void wait_forever() {
  while (true) {
    pause_a_little();
  }
}

int fail(const Subject& subject, FailureCategory category, const char* message, int status) {
  report_failure(subject.heartbeat, category, message);
  return status;
}

int stop_like_a_trainer(const Subject& subject) {
  return wait_for_stop(subject) == StopRequest::kInterrupt ? 130 : 75;
}

// Rank 1 does something, the others wait until they are stopped.
int only_rank_1(const Subject& subject, const std::function<int()>& act) {
  if (subject.rank() == 1) {
    return act();
  }
  wait_for_stop(subject);
  return 143;
}

int die(int signal) {
  ::raise(signal);
  return 0;
}

int print_lines(const Subject& subject) {
  std::printf("line of rank %d\n", subject.rank());
  std::printf("10%%\r20%%\r");
  std::fflush(stdout);
  std::fprintf(stderr, "warning: careful, says %d\n", subject.rank());
  std::printf("\x1b[2Kbar\nin two");
  std::fflush(stdout);
  std::printf(" pieces\nwithout an end");
  std::fflush(stdout);
  return 0;
}

int meet(const Subject& subject) {
  Store store = Store::connect(subject.environment.master_address, subject.environment.master_port,
                               milliseconds(20'000));
  start_barrier(store, subject.rank(), subject.environment.world_size, milliseconds(20'000));
  return store.add("sum", 1) > subject.environment.world_size ? 1 : 0;
}

bool is_gone(const fs::path& pid_file) {
  return fs::exists(pid_file) && ::kill(std::stoi(read_file(pid_file)), 0) != 0;
}

int miss_a_peer_that_left(const Subject& subject) {
  if (subject.rank() == 1) {
    return 0;
  }
  while (!is_gone(subject.file("pid-1"))) {
    pause_a_little();
  }
  return fail(subject, FailureCategory::kLostPeer, "connection closed", 1);
}

int miss_a_peer_that_dies_later(const Subject& subject) {
  if (subject.rank() == 0) {
    return fail(subject, FailureCategory::kLostPeer, "connection closed", 1);
  }
  wait_for_stop(subject);
  return die(SIGKILL);
}

int die_with_a_child(const Subject& subject) {
  const pid_t child = ::fork();
  if (child == 0) {
    wait_forever();
  }
  write_file_atomically(subject.file("pid-child"), std::to_string(child));
  return die(SIGKILL);
}

int ignore_stops(const Subject& subject) {
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  write_file_atomically(subject.file(concat("deaf-", subject.rank())), "");
  wait_forever();
}

// As a rank that is asked to stop before it can listen.
int die_of_stops(const Subject& subject) {
  ::signal(SIGTERM, SIG_DFL);
  write_file_atomically(subject.file(concat("deaf-", subject.rank())), "");
  wait_forever();
}

int wait_for_deaf_peer_and_die(const Subject& subject) {
  while (!fs::exists(subject.file("deaf-0"))) {
    pause_a_little();
  }
  return die(SIGKILL);
}

int print_environment(const Subject& subject) {
  std::printf("rank %d of %d, local %d of %d, omp %s, extra %s, elastic %s, arguments %d\n",
              subject.rank(), subject.environment.world_size, subject.environment.local_rank,
              subject.environment.local_world_size, std::getenv("OMP_NUM_THREADS"),
              std::getenv("EXTRA"), std::getenv("TORCHELASTIC_RUN_ID") == nullptr ? "unset" : "set",
              subject.argument_count);
  return 0;
}

using Scenario = std::function<int(const Subject&)>;

std::map<std::string, Scenario> scenarios() {
  const auto rank_1 = [](auto act) {
    return [act](const Subject& s) { return only_rank_1(s, [&] { return act(s); }); };
  };
  return {
      {"done", [](const Subject&) { return 0; }},
      {"exception", rank_1([](const Subject& s) {
         std::fprintf(stderr, "about to fail\n");
         return fail(s, FailureCategory::kException, "division by zero\nframe 1", 1);
       })},
      {"config",
       [](const Subject& s) { return fail(s, FailureCategory::kConfig, "epsilon is 8", 2); }},
      {"exit3", rank_1([](const Subject&) -> int { ::_exit(3); })},
      {"kill", rank_1([](const Subject&) { return die(SIGKILL); })},
      {"segv", rank_1([](const Subject&) {
         ::signal(SIGSEGV, SIG_DFL);
         return die(SIGSEGV);
       })},
      {"stubborn",
       [](const Subject& s) {
         return s.rank() == 1 ? wait_for_deaf_peer_and_die(s) : ignore_stops(s);
       }},
      {"leaver", miss_a_peer_that_left},
      {"victim_first", miss_a_peer_that_dies_later},
      {"child", rank_1(die_with_a_child)},
      {"lines", print_lines},
      {"meet", meet},
      {"train", stop_like_a_trainer},
      {"deaf", ignore_stops},
      {"early", [](const Subject& s) { return s.rank() == 1 ? die_of_stops(s) : ignore_stops(s); }},
      {"environment", print_environment},
  };
}

int run_rank(const RankEnvironment& environment, int argc, char** argv) {
  line_buffer_output();
  Subject subject{.environment = environment, .argument_count = argc, .arguments = argv};
  const ParentWatchdog watchdog(milliseconds(100));
  subject.heartbeat.set("attack", 7);
  if (!environment.run_directory.empty()) {
    write_file_atomically(subject.file(concat("pid-", subject.rank())), std::to_string(::getpid()));
  }
  return scenarios().at(argv[6])(subject);
}

}  // namespace

int run_subject(int argc, char** argv) {
  try {
    if (const auto environment = detect_environment(LauncherChoice::kAuto)) {
      return run_rank(*environment, argc, argv);
    }
    return run_launcher({.processes = std::stoi(argv[3]),
                         .command = {argv, argv + argc},
                         .run_directory = argv[2],
                         .grace = milliseconds(std::stoi(argv[4])),
                         .peer_grace = milliseconds(std::stoi(argv[5])),
                         .threads_per_process = 1,
                         .environment = {{"EXTRA", "given"}}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "subject: %s\n", error.what());
    return 99;
  }
}

}  // namespace temper
