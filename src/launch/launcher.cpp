#include "temper/launch/launcher.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launch/attempt.h"
#include "launch/failure_report.h"
#include "launch/memory_watch.h"
#include "launch/rank_output.h"
#include "launch/rank_process.h"
#include "launch/restarts.h"
#include "launch/run_state.h"
#include "launch/shared_page.h"
#include "launch/supervisor.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/dist/store.h"
#include "temper/launch/environment.h"
#include "temper/launch/flight_recorder.h"
#include "temper/launch/host_address.h"
#include "temper/launch/peer_watch.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAddress = "127.0.0.1";
constexpr std::array kHandledSignals = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT};

// From here on signals wait for the supervisor. Threads that start later inherit the mask.
FileDescriptor take_signals() {
  ::signal(SIGPIPE, SIG_IGN);  // a closed console is no reason to end
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : kHandledSignals) {
    ::sigaddset(&handled, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  FileDescriptor signals(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) {
    throw_errno("cannot receive signals");
  }
  return signals;
}

// A socket that keeps its free port from the choice to the end of the run.
FileDescriptor listen_locally() {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, kAddress, &address.sin_addr);
  if (!listener.is_open() ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    throw_errno(concat("cannot listen on ", kAddress));
  }
  return listener;
}

Store host_store(int world_size) {
  FileDescriptor listener = listen_locally();
  return Store::host(
      {.address = kAddress, .world_size = world_size, .listening_descriptor = listener.release()});
}

// What another launcher has set would contradict ours.
bool is_foreign(const std::string& name) {
  constexpr std::array<std::string_view, 3> kPrefixes = {"TORCHELASTIC_", "GROUP_", "ROLE_"};
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> rank_environment(const LauncherOptions& options, const Attempt& attempt,
                                          int restarts, int rank, const Store& store, int page) {
  EnvironmentVariables variables = environment_variables();
  std::erase_if(variables, [](const auto& entry) { return is_foreign(entry.first); });
  for (const auto& [name, value] : options.environment) {
    variables[name] = value;
  }
  if (static_cast<std::size_t>(rank) < options.visible_devices.size()) {
    variables["CUDA_VISIBLE_DEVICES"] = options.visible_devices[static_cast<std::size_t>(rank)];
  }
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(options.processes);
  variables["MASTER_ADDR"] = kAddress;
  variables["MASTER_PORT"] = std::to_string(store.port());
  variables["TEMPER_LAUNCHER"] = "spawn";
  variables["TEMPER_LAUNCHER_PID"] = std::to_string(::getpid());
  variables["TEMPER_RUN_DIR"] = options.run_directory.string();
  variables["TEMPER_RESTART_COUNT"] = std::to_string(restarts);
  variables["TEMPER_CONSOLE"] = ::isatty(STDOUT_FILENO) == 1 ? "terminal" : "plain";
  variables[kPageVariable] = std::to_string(page);
  if (options.threads_per_process > 0) {
    variables["OMP_NUM_THREADS"] = std::to_string(options.threads_per_process);
  }
  variables.merge(flight_recorder_variables(attempt.directory, variables));
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) {
    result.push_back(concat(name, "=", value));
  }
  return result;
}

void report(const Verdict& verdict, const ReportPlace& place, Console& console) {
  if (!verdict.cause) {
    return;
  }
  std::string text = failure_text(verdict, place);
  for (const fs::path& dump : flight_recorder_dumps(place.log_directory)) {
    text += concat("NCCL's last collectives: ", dump.string(), "\n");
  }
  if (!place.run_directory.empty()) {
    try {
      write_file_atomically(place.run_directory / "failure.json", failure_json(verdict, place));
    } catch (const SystemError& error) {
      text += concat("the report could not be written: ", error.what(), "\n");
    }
  }
  console.error().write(text);
}

struct Outcome {
  Verdict verdict{};
  bool stopped = false;  // by a signal to the launcher, or to a rank at the start
};

// All had been asked to stop while they started.
bool had_nothing_to_save(const std::vector<RankEnd>& ends) {
  return std::ranges::all_of(ends, [](const RankEnd& end) {
    return end.stopped_early || (end.ended_by_launcher && end.signal != SIGKILL);
  });
}

// A rank that was killed could not.
void end_state(const fs::path& run_directory, const Outcome& outcome, Console& console) {
  try {
    end_running_state(run_directory, outcome.verdict.cause ? kStateFailed : kStateStopped);
  } catch (const SystemError& error) {
    console.note(concat("launcher: status.json still says that the run goes on: ", error.what()));
  }
}

void lay_blame_for_kills(std::vector<RankEnd>& ends, const MemoryState& before) {
  for (RankEnd& end : ends) {
    if (end.signal == SIGKILL && !end.ended_by_launcher && !end.reported) {
      KillVerdict verdict = judge_kill(before, read_memory_state());
      end.out_of_memory = verdict.out_of_memory;
      end.kill_verdict = std::move(verdict.text);
    }
  }
}

Outcome run_attempt(const LauncherOptions& options, const Attempt& attempt, int restarts,
                    int signals, Console& console) {
  const MemoryState memory = read_memory_state();
  Store store = host_store(options.processes);
  SharedPage page(options.processes);
  Supervisor supervisor(
      {.host = host_name(),
       .grace = options.grace,
       .peer_grace = options.peer_grace,
       .hang_timeout = options.hang_timeout,
       .log_directory = attempt.directory,
       .announce_failure = [&](const std::string& line) { announce_peer_failure(store, line); }},
      signals, page, console);
  for (int rank = 0; rank < options.processes; ++rank) {
    supervisor.add(start_rank({.arguments = options.command,
                               .environment = rank_environment(options, attempt, restarts, rank,
                                                               store, page.descriptor()),
                               .inherited_descriptor = page.descriptor()}));
  }
  std::vector<RankEnd> ends = supervisor.run();
  end_children();
  lay_blame_for_kills(ends, memory);
  if (had_nothing_to_save(ends)) {
    console.note("launcher: stopped before there was anything to save");
  }
  return {.verdict = judge(ends, supervisor.stop()), .stopped = supervisor.stop().signal != 0};
}

}  // namespace

void check_launcher_options(const LauncherOptions& options) {
  if (options.processes < 1) {
    throw ConfigError(concat("--nproc ", options.processes, ": expected at least 1"));
  }
  if (options.max_restarts < 0) {
    throw ConfigError(
        concat("--max-restarts ", options.max_restarts, ": expected 0 or a larger number"));
  }
  if (options.hang_timeout && options.hang_timeout->count() <= 0) {
    throw ConfigError("--hang-timeout: expected a time above 0, such as 5min");
  }
  require(!options.command.empty(), "a launcher needs a command");
}

int run_launcher(const LauncherOptions& options) {
  check_launcher_options(options);
  const FileDescriptor signals = take_signals();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    throw_errno("cannot adopt what ranks leave behind");
  }
  Console console;
  Restarts restarts(options.max_restarts, options.first_restart_wait, console);
  while (true) {
    const Attempt attempt = start_attempt(options.run_directory);
    const Outcome outcome = run_attempt(options, attempt, restarts.count(), signals.get(), console);
    report(outcome.verdict,
           {.host = host_name(),
            .attempt = attempt.number,
            .run_directory = options.run_directory,
            .log_directory = attempt.directory},
           console);
    if (outcome.stopped || !restarts.next(outcome.verdict, signals.get())) {
      end_state(options.run_directory, outcome, console);
      constexpr int kConsoleWait = 2000;
      console.output().finish(kConsoleWait);
      console.error().finish(kConsoleWait);
      // What the attempt had saved stands.
      return restarts.stopped_by() == 0        ? outcome.verdict.status
             : restarts.stopped_by() == SIGINT ? kStatusInterrupted
                                               : kStatusCheckpointed;
    }
  }
}

}  // namespace temper
