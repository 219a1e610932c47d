#include "launch/spawn_subject.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/dist/store.h"
#include "temper/launch/environment.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/launcher.h"
#include "temper/launch/peer_watch.h"
#include "temper/launch/stack_dump.h"
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

void wait_for_file(const fs::path& path) {
  while (!fs::exists(path)) {
    pause_a_little();
  }
}

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
  claim_rank(store, subject.rank(), subject.environment.world_size);
  if (!start_barrier(store, subject.rank(), subject.environment.world_size)) {
    return 1;
  }
  return store.add("sum", 1) > subject.environment.world_size ? 1 : 0;
}

bool is_gone(const fs::path& pid_file) {
  return fs::exists(pid_file) && ::kill(std::stoi(read_file(pid_file)), 0) != 0;
}

int miss_a_peer_that_left(const Subject& subject) {
  if (subject.rank() == 1) {
    wait_for_file(subject.file("pid-0"));
    ::_exit(0);
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
  wait_for_file(subject.file("deaf-0"));
  return die(SIGKILL);
}

// Ends the reach of its process group.
int die_with_a_runaway(const Subject& subject) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    write_file_atomically(subject.file("pid-child"), std::to_string(::getpid()));
    wait_forever();
  }
  wait_for_file(subject.file("pid-child"));
  return die(SIGKILL);
}

// Rank 1 stands still, rank 0 waits for it in a collective.
int wait_for_a_laggard(Subject& subject, const std::function<void()>& stand_still) {
  if (subject.rank() == 1) {
    stand_still();
  }
  subject.heartbeat.collective().begin("all_reduce_sum", "float64", 42, "update summary");
  wait_forever();
}

int leave_a_collective_out(Subject& subject) {
  CollectiveProgress& progress = subject.heartbeat.collective();
  if (subject.rank() == 0) {
    progress.begin("all_reduce_sum", "float64", 42, "update summary");
    progress.end_all();
  }
  progress.begin("broadcast", "uint8", 5, "text");
  wait_forever();
}

// Fails in the first attempts, at an update that depends on how often it has been started.
int fail_first(Subject& subject, int failures, bool moves_on) {
  const int count = subject.environment.restart_count;
  subject.heartbeat.set("attack", static_cast<std::uint64_t>(moves_on ? 7 + count : 7));
  std::printf("attempt with restart count %d\n", count);
  if (subject.rank() == 1 && count < failures) {
    wait_for_file(subject.file(concat("printed-", count)));  // or rank 0 is ended before it prints
    return die(SIGKILL);
  }
  if (count < failures) {
    write_file_atomically(subject.file(concat("printed-", count)), "");
    wait_for_stop(subject);
    return 143;
  }
  return 0;
}

// The others find the cause in the store.
int ask_why(const Subject& subject) {
  if (subject.rank() == 1) {
    wait_for_file(subject.file("asks-0"));
    return die(SIGKILL);
  }
  write_file_atomically(subject.file("asks-0"), "");
  Store store = Store::connect(subject.environment.master_address, subject.environment.master_port,
                               milliseconds(20'000));
  const auto line = peer_failure(store, milliseconds(20'000));
  std::printf("told: %s\n", line ? line->c_str() : "nothing");
  return fail(subject, FailureCategory::kLostPeer, "connection closed", 1);
}

int wait_for_a_save_request(const Subject& subject) {
  write_file_atomically(subject.file(concat("waits-", subject.rank())), "");
  while (subject.signals.saves_requested() == 0) {
    pause_a_little();
  }
  std::printf("saved\n");
  return 0;
}

// As a rank that opens its data: it looks at no flag.
int load_for_ever(Subject& subject) {
  subject.signals.tell(subject.heartbeat);
  subject.signals.set_nothing_to_save(true);
  write_file_atomically(subject.file(concat("loads-", subject.rank())), "");
  wait_forever();
}

// Rank 1 opens its data, rank 0 waits for it and looks at the flag.
int wait_for_a_rank_that_loads(Subject& subject) {
  if (subject.rank() == 1) {
    return load_for_ever(subject);
  }
  write_file_atomically(subject.file("loads-0"), "");
  return report_stopped_early(subject.heartbeat, wait_for_stop(subject));
}

int save_and_show_stacks(const Subject& subject) {
  while (subject.signals.saves_requested() == 0) {
    pause_a_little();
  }
  std::printf("saved\n");
  return 0;
}

int save_and_linger(const Subject& subject) {
  write_file_atomically(subject.file(concat("trains-", subject.rank())), "");
  wait_for_stop(subject);
  report_finished(subject.heartbeat);
  write_file_atomically(subject.file(concat("saved-", subject.rank())), "");
  wait_forever();
}

int leave_a_status_and_die(const Subject& subject) {
  write_file_atomically(subject.file("status.json"),
                        "{\n  \"state\": \"running\",\n  \"eta_seconds\": 5.0\n}\n");
  return die(SIGKILL);
}

int leave_a_status_and_ignore_stops(const Subject& subject) {
  write_file_atomically(subject.file("status.json"), R"({"state": "running", "eta_seconds": 5.0})");
  return ignore_stops(subject);
}

int print_memory_score(const Subject&) {
  std::printf("score %s", read_file("/proc/self/oom_score_adj").c_str());
  return 0;
}

int print_environment(const Subject& subject) {
  std::printf("rank %d of %d, local %d of %d, omp %s, extra %s, elastic %s, arguments %d\n",
              subject.rank(), subject.environment.world_size, subject.environment.local_rank,
              subject.environment.local_world_size, std::getenv("OMP_NUM_THREADS"),
              std::getenv("EXTRA"), std::getenv("TORCHELASTIC_RUN_ID") == nullptr ? "unset" : "set",
              subject.argument_count);
  return 0;
}

using Scenario = std::function<int(Subject&)>;

std::map<std::string, Scenario> scenarios() {
  const auto rank_1 = [](auto act) {
    return [act](Subject& s) { return only_rank_1(s, [&] { return act(s); }); };
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
      {"runaway", rank_1(die_with_a_runaway)},
      {"stopped", [](Subject& s) { return wait_for_a_laggard(s, [] { ::raise(SIGSTOP); }); }},
      {"endless", [](Subject& s) { return wait_for_a_laggard(s, [] { wait_forever(); }); }},
      {"left_out", leave_a_collective_out},
      {"fails_once", [](Subject& s) { return fail_first(s, 1, true); }},
      {"fails_twice", [](Subject& s) { return fail_first(s, 2, true); }},
      {"fails_at_the_same_place", [](Subject& s) { return fail_first(s, 5, false); }},
      {"ask_why", ask_why},
      {"save_request", wait_for_a_save_request},
      {"loads", load_for_ever},
      {"waits_for_a_load", wait_for_a_rank_that_loads},
      {"late_handlers", save_and_show_stacks},
      {"lingers", save_and_linger},
      {"running_kill", rank_1(leave_a_status_and_die)},
      {"running_deaf", leave_a_status_and_ignore_stops},
      {"lines", print_lines},
      {"meet", meet},
      {"train", stop_like_a_trainer},
      {"deaf", ignore_stops},
      {"early", [](const Subject& s) { return s.rank() == 1 ? die_of_stops(s) : ignore_stops(s); }},
      {"memory_score", print_memory_score},
      {"environment", print_environment},
  };
}

// As while the libraries of a rank are loaded.
void wait_without_handlers(const fs::path& folder, int rank) {
  write_file_atomically(folder / concat("pid-", rank), std::to_string(::getpid()));
  wait_for_file(folder / "go");
}

int run_rank(const RankEnvironment& environment, int argc, char** argv) {
  line_buffer_output();
  if (std::string_view(argv[6]) == "late_handlers") {
    wait_without_handlers(environment.run_directory, environment.rank);
  }
  Subject subject{.environment = environment, .argument_count = argc, .arguments = argv};
  answer_stack_requests();
  const ParentWatchdog watchdog(milliseconds(100));
  subject.heartbeat.set("attack", 7);
  if (!environment.run_directory.empty()) {
    write_file_atomically(subject.file(concat("pid-", subject.rank())), std::to_string(::getpid()));
  }
  const int status = scenarios().at(argv[6])(subject);
  if (std::string_view(argv[6]) != "waits_for_a_load") {
    report_finished(subject.heartbeat);
  }
  return status;
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
                         .environment = {{"EXTRA", "given"}},
                         .max_restarts = argc > 7 ? std::stoi(argv[7]) : 0,
                         .first_restart_wait = milliseconds(1),
                         .hang_timeout = argc > 8 ? std::optional(milliseconds(std::stoi(argv[8])))
                                                  : std::nullopt});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "subject: %s\n", error.what());
    return 99;
  }
}

}  // namespace temper
