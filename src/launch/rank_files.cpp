#include "temper/launch/rank_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/attempt.h"
#include "launch/crash_text.h"
#include "launch/failure_report.h"
#include "launch/rank_report.h"
#include "launch/run_state.h"
#include "launch/shared_page.h"
#include "launch/stack_trace.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/log.h"
#include "temper/launch/host_address.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr std::array kCrashSignals = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE};
constexpr std::size_t kAlternateStack = std::size_t{1} << 17;
constexpr const char* kErrorFileVariable = "TORCHELASTIC_ERROR_FILE";
constexpr auto kReplaceBadText = nlohmann::json::error_handler_t::replace;

// The texts of one signal, complete but for the marks of crash_text.h.
struct Prepared {
  std::string torchrun;
  std::string report;
};

struct State {
  State(const RankEnvironment& rank, const Heartbeat& beats)
      : environment(rank), heartbeat(beats), slot(beats.page().slot()), host(host_name()) {}

  const RankEnvironment& environment;
  const Heartbeat& heartbeat;
  RankSlot& slot;
  std::string host;
  SymbolMap symbols;
  std::string torchrun_path;
  std::string torchrun_temporary;
  fs::path run_directory;
  fs::path log_path;
  int attempt = 0;
  std::string report_path;  // empty: no failure.json
  std::string report_temporary;
  std::array<Prepared, kCrashSignals.size()> prepared;
  std::vector<char> alternate_stack = std::vector<char>(kAlternateStack);
  std::array<struct sigaction, kCrashSignals.size()> old_actions{};
  std::terminate_handler old_terminate = nullptr;
};

std::unique_ptr<State> owner;
std::atomic<State*> state{nullptr};  // what a handler sees

// The layout that torchrun's agent reads: it prints only the call stack, and fails on a timestamp
// that is not a whole number in a string.
std::string torchrun_error(const std::string& message, std::string_view stack,
                           const std::string& timestamp) {
  nlohmann::json extra;
  extra["py_callstack"] = stack.empty() ? message : concat(message, "\n", stack);
  extra["timestamp"] = timestamp;
  nlohmann::json document;
  document["message"] = {{"message", message}, {"extraInfo", extra}};
  return document.dump(-1, ' ', false, kReplaceBadText);
}

std::string temporary_name(const std::string& path) { return concat(path, ".", ::getpid()); }

const char* torchrun_error_file() {
  const char* path = std::getenv(kErrorFileVariable);
  return path == nullptr || *path == '\0' ? nullptr : path;
}

RankEnd own_end(const State& rank, const Beat& beat) {
  return {.rank = rank.environment.rank,
          .pid = ::getpid(),
          .nanoseconds = monotonic_nanoseconds(),
          .beat = beat};
}

std::string report_text(const State& rank, const RankEnd& end, const std::string& host,
                        std::string_view stack) {
  const Verdict verdict = judge({end}, {});
  nlohmann::json document =
      nlohmann::json::parse(failure_json(verdict, {.host = host,
                                                   .attempt = rank.attempt,
                                                   .run_directory = rank.run_directory,
                                                   .log_directory = rank.log_path.parent_path()}));
  document["stack"] = stack.empty() ? std::vector<std::string>() : split(stack, '\n');
  return document.dump(2, ' ', false, kReplaceBadText) + "\n";
}

void prepare_texts(State& rank) {
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    RankEnd end = own_end(rank, {.phase = std::string(kPhaseMark), .update = kUpdateNumber});
    end.signal = kCrashSignals[i];
    const Verdict verdict = judge({end}, {});
    rank.prepared[i] = {.torchrun = torchrun_error(failure_line(*verdict.cause, rank.host),
                                                   kStackMark, std::string(kTimeMark)),
                        .report = report_text(rank, end, rank.host, kStackMark)};
  }
}

// Async-signal-safe, as all down to `temper_report_crash`.
bool is_lost_peer_report(const char* path) noexcept {
  static std::array<char, std::size_t{1} << 14> content;
  const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  const ssize_t count = ::read(descriptor, content.data(), content.size());
  ::close(descriptor);
  const std::string_view text(content.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
  return text.find("\"category\": \"lost peer\"") != std::string_view::npos;
}

void place_report(const State& rank, std::string_view content, bool is_cause) noexcept {
  const char* path = rank.report_path.c_str();
  const char* temporary = rank.report_temporary.c_str();
  if (!place_file(path, temporary, content, /*keep_old=*/true) && is_cause &&
      is_lost_peer_report(path)) {
    place_file(path, temporary, content, /*keep_old=*/false);
  }
}

void describe_frames(FixedText& out, const State& rank, const StackFrames& frames) noexcept {
  for (int i = 0; i < frames.count; ++i) {
    const void* address = frames.addresses[static_cast<std::size_t>(i)];
    const SymbolMap::Place place = rank.symbols.find(address);
    out.add("#");
    out.add_number(static_cast<std::uint64_t>(i));
    out.add(" ");
    constexpr std::size_t kLongestName = 200;
    out.add(place.function.empty() ? "??" : place.function.substr(0, kLongestName));
    out.add(" +0x");
    out.add_number(place.offset, 16);
    out.add(" (");
    out.add(place.module.empty() ? "??" : place.module);
    out.add(")\n");
  }
}

void write_crash_files(const State& rank, int signal, std::string_view stack) noexcept {
  static constinit FixedText text;
  std::array<char, sizeof(BeatLine::phase)> phase{};
  for (std::size_t i = 0; i < rank.slot.beat.phase.size(); ++i) {
    const std::uint64_t word = rank.slot.beat.phase[i].load(std::memory_order_relaxed);
    std::memcpy(phase.data() + i * sizeof word, &word, sizeof word);
  }
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const CrashFacts facts{.phase = phase[0] == '\0'
                                      ? std::string_view("start")
                                      : std::string_view(phase.data(), ::strnlen(phase.data(), 32)),
                         .update = rank.slot.beat.update.load(std::memory_order_relaxed),
                         .seconds = static_cast<std::uint64_t>(now.tv_sec),
                         .stack = stack};
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    if (kCrashSignals[i] != signal) {
      continue;
    }
    if (!rank.torchrun_path.empty()) {
      text.clear();
      complete(text, rank.prepared[i].torchrun, facts);
      place_file(rank.torchrun_path.c_str(), rank.torchrun_temporary.c_str(), text.text(), false);
    }
    if (!rank.report_path.empty()) {
      text.clear();
      complete(text, rank.prepared[i].report, facts);
      place_report(rank, text.text(), true);
    }
  }
}

void report_crash(const State& rank, int signal) noexcept {
  static constinit FixedText stack(FixedText::kSize / 2);  // the files around it must be whole
  static StackFrames frames;
  capture_stack(frames);
  describe_frames(stack, rank, frames);
  static constinit FixedText shown;
  shown.add("rank ");
  shown.add_number(static_cast<std::uint64_t>(rank.environment.rank));
  shown.add(" crashes by signal ");
  shown.add_number(static_cast<std::uint64_t>(signal));
  shown.add(", stack:\n");
  shown.add(stack.text());
  [[maybe_unused]] const ssize_t count =
      ::write(STDERR_FILENO, shown.text().data(), shown.text().size());
  if (rank.slot.failure.state.load() == FailureSlot::kEmpty) {  // else the cause is told already
    write_crash_files(rank, signal, stack.text());
  }
}

extern "C" void temper_report_crash(int signal) {
  static std::atomic<int> busy{0};
  const auto self = static_cast<int>(::syscall(SYS_gettid));
  int other = 0;
  if (busy.compare_exchange_strong(other, self)) {
    if (const State* rank = state.load()) {
      report_crash(*rank, signal);
    }
  } else if (other != self) {  // another thread writes, and ends the process
    const timespec patience{10, 0};
    ::nanosleep(&patience, nullptr);
  }
  ::signal(signal, SIG_DFL);
  sigset_t own;
  ::sigemptyset(&own);
  ::sigaddset(&own, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  ::raise(signal);
}

[[noreturn]] void end_by_terminate() {
  const State* rank = state.load();
  try {
    if (std::current_exception() == nullptr) {
      throw std::logic_error("std::terminate was called without an exception");
    }
    throw;
  } catch (const std::exception& error) {
    log_error("nobody caught: ", error.what());
    if (rank != nullptr) {
      report_failure(rank->heartbeat, FailureCategory::kException,
                     concat("nobody caught: ", error.what()));
    }
  } catch (...) {
    log_error("nobody caught an exception of an unknown type");
  }
  std::abort();
}

void install_handlers(State& rank) {
  StackFrames frames;
  capture_stack(frames);  // loads what it needs
  stack_t alternate{};
  alternate.ss_sp = rank.alternate_stack.data();
  alternate.ss_size = rank.alternate_stack.size();
  ::sigaltstack(&alternate, nullptr);
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = temper_report_crash;
    action.sa_flags = SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(kCrashSignals[i], &action, &rank.old_actions[i]) != 0) {
      throw_errno(concat("cannot handle signal ", kCrashSignals[i]));
    }
  }
  rank.old_terminate = std::set_terminate(end_by_terminate);
}

std::vector<std::string> last_lines(const fs::path& log) {
  constexpr std::ptrdiff_t kMost = 30;
  std::vector<std::string> lines = split(trim(read_file(log)), '\n');
  if (std::ssize(lines) > kMost) {
    lines.erase(lines.begin(), lines.end() - kMost);
  }
  return lines;
}

}  // namespace

RankFiles::RankFiles(const RankEnvironment& environment, const Heartbeat& heartbeat) {
  require(owner == nullptr, "a process has one set of rank files");
  owner = std::make_unique<State>(environment, heartbeat);
  if (const char* path = torchrun_error_file()) {
    owner->torchrun_path = path;
    owner->torchrun_temporary = temporary_name(path);
  }
  prepare_texts(*owner);
  install_handlers(*owner);
  state.store(owner.get());
}

RankFiles::~RankFiles() {
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    ::sigaction(kCrashSignals[i], &owner->old_actions[i], nullptr);
  }
  std::set_terminate(owner->old_terminate);
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  state.store(nullptr);
  owner.reset();
}

void RankFiles::open(const fs::path& run_directory, int attempt) {
  State& rank = *owner;
  state.store(nullptr);
  rank.run_directory = run_directory;
  rank.attempt = attempt;
  rank.log_path =
      attempt_directory(run_directory, attempt) / concat("rank-", rank.environment.rank, ".log");
  rank.report_path = (run_directory / "failure.json").string();
  rank.report_temporary = concat(rank.report_path, ".", rank.environment.rank, ".", ::getpid());
  prepare_texts(rank);
  state.store(&rank);
  add_log_file(rank.log_path);
}

void write_rank_report(const Beat& beat, FailureCategory category,
                       std::string_view message) noexcept {
  try {
    const bool is_cause = category != FailureCategory::kLostPeer;
    const std::string stack = trace_of_current_exception();
    if (const char* path = torchrun_error_file(); path != nullptr && is_cause) {
      write_file_atomically(path, torchrun_error(concat(message, " in phase ", beat.phase,
                                                        " at update ", beat.update),
                                                 stack, std::to_string(std::time(nullptr))));
    }
    const State* rank = state.load();
    if (rank != nullptr && !rank->report_path.empty()) {
      RankEnd end = own_end(*rank, beat);
      end.reported = category;
      end.exit_code = category == FailureCategory::kConfig ? kStatusConfig : kStatusFailed;
      end.message = message;
      end.last_lines = last_lines(rank->log_path);
      place_report(*rank, report_text(*rank, end, rank->host, stack), is_cause);
      end_running_state(rank->run_directory, kStateFailed);
    }
  } catch (const std::exception& error) {
    log_error("the report of this failure is incomplete: ", error.what());
  }
}

void report_to_torchrun(const std::string& message) noexcept {
  try {
    if (const char* path = torchrun_error_file(); path != nullptr && !fs::exists(path)) {
      write_file_atomically(path, torchrun_error(message, trace_of_current_exception(),
                                                 std::to_string(std::time(nullptr))));
    }
  } catch (const std::exception& error) {
    log_error("torchrun is not told of this failure: ", error.what());
  }
}

void write_hang_report(const RankEnd& blamed, const std::string& host) noexcept {
  const State* rank = state.load();
  if (rank == nullptr || rank->report_path.empty()) {
    return;
  }
  try {
    RankEnd end = blamed;
    const fs::path log = rank->log_path.parent_path() / concat("rank-", end.rank, ".log");
    if (fs::exists(log)) {  // on a file system that the hosts share
      end.last_lines = last_lines(log);
    }
    place_report(*rank, report_text(*rank, end, host, ""), true);
    end_running_state(rank->run_directory, kStateFailed);
  } catch (const std::exception& error) {
    log_error("the report of this failure is incomplete: ", error.what());
  }
}

}  // namespace temper
