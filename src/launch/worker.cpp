#include "temper/launch/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launch/rank_report.h"
#include "launch/shared_page.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::array kStopSignals = {SIGUSR1, SIGTERM, SIGINT};
constexpr int kExitInterrupted = 130;
constexpr int kExitTerminated = 143;

// A handler reaches nothing but globals.
std::atomic<int> stop_signal{0};
std::atomic<int> interrupts{0};
std::atomic<std::int64_t> saves{0};
std::atomic<bool> second_interrupt_exits{false};
std::atomic<bool> nothing_to_save{false};
std::atomic<FailureSlot*> told_slot{nullptr};
static_assert(std::atomic<int>::is_always_lock_free);

int status_of_nothing_saved(int number) {
  return number == SIGINT ? kExitInterrupted : kExitTerminated;
}

[[noreturn]] void end_with_nothing_saved(int number) {
  if (FailureSlot* slot = told_slot.load()) {
    slot->finished.store(FailureSlot::kStoppedEarly);
  }
  ::_exit(status_of_nothing_saved(number));
}

extern "C" void temper_end_early(int number) { ::_exit(status_of_nothing_saved(number)); }

extern "C" void temper_note_stop_signal(int number) {
  int none = 0;
  stop_signal.compare_exchange_strong(none, number);
  if (nothing_to_save.load()) {
    end_with_nothing_saved(number);
  }
  if (number == SIGINT && interrupts.fetch_add(1) > 0 && second_interrupt_exits.load()) {
    ::_exit(kExitInterrupted);
  }
}

extern "C" void temper_note_save_signal(int) { saves.fetch_add(1); }

void set_action(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  if (::sigaction(number, &action, nullptr) != 0) {
    throw_errno(concat("cannot handle signal ", number));
  }
}

void change_mask(int how, std::initializer_list<int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) {
    ::sigaddset(&set, number);
  }
  ::pthread_sigmask(how, &set, nullptr);
}

void fill_slot(FailureSlot& slot, FailureCategory category, std::string_view message) {
  slot.category = static_cast<std::uint32_t>(category);
  slot.nanoseconds = monotonic_nanoseconds();
  const std::size_t length = std::min(message.size(), slot.message.size());
  std::copy_n(message.begin(), length, slot.message.begin());
  slot.length = static_cast<std::uint32_t>(length);
  slot.state.store(FailureSlot::kFull, std::memory_order_release);
}

}  // namespace

void hold_early_signals() {
  set_action(SIGUSR1, temper_end_early);  // a rank of our launcher was started with it blocked
  change_mask(SIG_BLOCK, {SIGUSR2, SIGQUIT});
}

WorkerSignals::WorkerSignals(SecondInterrupt second_interrupt) {
  stop_signal.store(0);
  interrupts.store(0);
  second_interrupt_exits.store(second_interrupt == SecondInterrupt::kExit);
  for (const int number : kStopSignals) {
    set_action(number, temper_note_stop_signal);
  }
  saves.store(0);
  nothing_to_save.store(false);
  set_action(SIGUSR2, temper_note_save_signal);
  set_action(SIGPIPE, SIG_IGN);
  change_mask(SIG_UNBLOCK, {SIGUSR1, SIGUSR2});  // what came before is answered now
}

WorkerSignals::~WorkerSignals() { told_slot.store(nullptr); }

StopRequest WorkerSignals::stop_requested() const noexcept {
  switch (stop_signal.load(std::memory_order_relaxed)) {
    case SIGUSR1:
      return StopRequest::kCheckpoint;
    case SIGTERM:
      return StopRequest::kTerminate;
    case SIGINT:
      return StopRequest::kInterrupt;
    default:
      return StopRequest::kNone;
  }
}

void WorkerSignals::tell(const Heartbeat& heartbeat) noexcept {
  told_slot.store(&heartbeat.page().slot().failure);
}

void WorkerSignals::set_nothing_to_save(bool nothing) noexcept {
  nothing_to_save.store(nothing);
  if (const int number = stop_signal.load(); nothing && number != 0) {
    end_with_nothing_saved(number);
  }
}

std::int64_t WorkerSignals::saves_requested() const noexcept {
  return saves.load(std::memory_order_relaxed);
}

class ParentWatchdog::Thread {
 public:
  Thread(pid_t parent, std::chrono::milliseconds grace)
      : grace_(grace), thread_([this, parent] { watch(parent); }) {
    ::pthread_setname_np(thread_.native_handle(), "temper-parent");
  }
  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void set_grace(std::chrono::milliseconds grace) {
    const std::lock_guard lock(mutex_);
    grace_ = grace;
  }

 private:
  void watch(pid_t parent) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kInterval{200};
    constexpr std::chrono::milliseconds kShortest{1};
    std::unique_lock lock(mutex_);
    std::optional<Clock::time_point> lost;
    while (!lost || Clock::now() - *lost < grace_) {
      if (!lost && ::getppid() != parent) {
        lost = Clock::now();
      }
      if (wake_.wait_for(lock, std::clamp(grace_, kShortest, kInterval),
                         [this] { return stopping_; })) {
        return;
      }
    }
    ::_exit(kExitTerminated);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::chrono::milliseconds grace_;
  std::thread thread_;
};

ParentWatchdog::ParentWatchdog(std::chrono::milliseconds grace) {
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
    throw_errno("cannot ask for a signal at the parent's death");
  }
  pid_t parent = ::getppid();
  // Our launcher names itself, which also shows a death before this line.
  if (const char* launcher = std::getenv("TEMPER_LAUNCHER_PID")) {
    if (const int expected = std::atoi(launcher); expected != parent) {
      ::raise(SIGTERM);
      parent = expected;
    }
  }
  // Signals are for the threads that can handle them; each can show its stack.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGQUIT);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::make_unique<Thread>(parent, grace);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ParentWatchdog::~ParentWatchdog() = default;

void ParentWatchdog::set_grace(std::chrono::milliseconds grace) { thread_->set_grace(grace); }

void line_buffer_output() { std::setvbuf(stdout, nullptr, _IOLBF, 0); }

std::string_view category_name(FailureCategory category) {
  switch (category) {
    case FailureCategory::kConfig:
      return "configuration";
    case FailureCategory::kData:
      return "data";
    case FailureCategory::kMemory:
      return "out of memory";
    case FailureCategory::kSystem:
      return "system error";
    case FailureCategory::kException:
      return "exception";
    case FailureCategory::kLostPeer:
      return "lost peer";
    case FailureCategory::kHang:
      return "hang";
    case FailureCategory::kCrashSignal:
      return "crash signal";
    case FailureCategory::kKilledFromOutside:
      return "killed from outside";
    case FailureCategory::kExit:
      break;
  }
  return "exit";
}

void report_finished(const Heartbeat& heartbeat) noexcept {
  heartbeat.page().slot().failure.finished.store(FailureSlot::kDone);
}

int report_stopped_early(const Heartbeat& heartbeat, StopRequest request) noexcept {
  heartbeat.page().slot().failure.finished.store(FailureSlot::kStoppedEarly);
  return request == StopRequest::kInterrupt ? kExitInterrupted : kExitTerminated;
}

void report_failure(const Heartbeat& heartbeat, FailureCategory category,
                    std::string_view message) noexcept {
  FailureSlot& slot = heartbeat.page().slot().failure;
  std::uint32_t empty = FailureSlot::kEmpty;
  if (!slot.state.compare_exchange_strong(empty, FailureSlot::kWriting)) {
    return;
  }
  fill_slot(slot, category, message);
  write_rank_report(heartbeat.beat(), category, message);
}

}  // namespace temper
