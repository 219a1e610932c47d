#pragma once
// What a rank does for its supervision, under every launcher: hear stop requests, end when its
// parent is gone, leave the reason of a failure where the launcher or torchrun's agent finds it.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "temper/launch/heartbeat.h"

namespace temper {

// Why a rank should save and stop; the exit status depends on it (contract: 75, 143 or 130).
enum class StopRequest {
  kNone,
  kCheckpoint,  // SIGUSR1: the job is about to be preempted
  kTerminate,   // SIGTERM
  kInterrupt,   // SIGINT
};

enum class SecondInterrupt {
  kIgnore,  // a launcher decides
  kExit,    // no launcher: the second Ctrl-C ends the process at once with status 130
};

// The first thing that a program does which may be launcher or rank: until either handles its
// signals, SIGUSR1 ends it with status 143, SIGUSR2 and SIGQUIT wait.
void hold_early_signals();

// From its construction to the end of the process SIGTERM, SIGUSR1, SIGUSR2 and SIGINT only set a
// flag and SIGPIPE is ignored, so that a rank can still save when its launcher's pipes are gone,
// and a late duplicate cannot replace its exit status. The first request to stop stays; repeats
// change nothing. A new object starts without a request.
class WorkerSignals {
 public:
  explicit WorkerSignals(SecondInterrupt second_interrupt);
  ~WorkerSignals();
  WorkerSignals(const WorkerSignals&) = delete;
  WorkerSignals& operator=(const WorkerSignals&) = delete;

  // Any thread, any time; one atomic load.
  [[nodiscard]] StopRequest stop_requested() const noexcept;
  // While this is true the first request ends the process at once, with the status of one that had
  // nothing to save (143, for SIGINT 130): a rank that opens its data or waits for a store looks at
  // no flag.
  void set_nothing_to_save(bool nothing) noexcept;
  // Our launcher then hears through this heartbeat, which must outlive the object, that the rank
  // was asked to stop and the others have to stop as well.
  void tell(const Heartbeat& heartbeat) noexcept;
  // How often SIGUSR2 has come: save and go on.
  [[nodiscard]] std::int64_t saves_requested() const noexcept;
};

// Asks the kernel for SIGTERM when the parent dies, and ends the process by `_exit` with status 143
// if it still runs `grace` after that. To be made first thing by the main thread; needs the
// handlers of WorkerSignals for a chance to save.
class ParentWatchdog {
 public:
  explicit ParentWatchdog(std::chrono::milliseconds grace);
  // Also for a parent that is gone already: a rank with nothing to save has no use for a long one.
  void set_grace(std::chrono::milliseconds grace);
  ~ParentWatchdog();
  ParentWatchdog(const ParentWatchdog&) = delete;
  ParentWatchdog& operator=(const ParentWatchdog&) = delete;

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

// A rank's standard output is a pipe, which the C library would fill before it writes. Call before
// any output.
void line_buffer_output();

// A lost peer is a consequence: the rank only noticed that another is gone. Ranks report the first
// six, the launcher finds the rest and a memory that ran out in the kernel's view.
enum class FailureCategory {
  kConfig,
  kData,
  kMemory,     // of the host or of a GPU
  kSystem,     // a refusal of the system that may go away: a file server, a network
  kException,  // anything else
  kLostPeer,
  kHang,               // no progress, or a collective that a rank never came to
  kCrashSignal,        // SIGSEGV, SIGABRT, ...
  kKilledFromOutside,  // SIGKILL, SIGTERM, ... not sent by the launcher
  kExit,               // ended with a status that says nothing more
};

[[nodiscard]] std::string_view category_name(FailureCategory category);

// Tells our launcher that this rank has done its part, so that a good exit status is believed. A
// rank that ends without it has left the others alone.
void report_finished(const Heartbeat& heartbeat) noexcept;

// The same for a rank that was asked to stop before there was anything to save; our launcher then
// stops the others, too. Returns its exit status: 143, or 130 for Ctrl-C.
[[nodiscard]] int report_stopped_early(const Heartbeat& heartbeat, StopRequest request) noexcept;

// Leaves the reason, with the heartbeat's phase and update, for our launcher, and in the files of
// temper/launch/rank_files.h with the stack of the exception that is being handled; under torchrun
// in $TORCHELASTIC_ERROR_FILE, except for a lost peer, whose file could win over the cause's. The
// first report of a process counts. Never throws: the failure itself must come through.
void report_failure(const Heartbeat& heartbeat, FailureCategory category,
                    std::string_view message) noexcept;

}  // namespace temper
