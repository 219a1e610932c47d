#include "launch/restarts.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "temper/core/text.h"
#include "temper/core/units.h"
#include "temper/launch/worker.h"

namespace temper {
namespace {

// Returns early with the signal that asks to stop, else 0.
int wait_before_restart(std::chrono::milliseconds time, int signals) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto rest =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd entry{signals, POLLIN, 0};
    const int ready = ::poll(&entry, 1, std::max(0, static_cast<int>(rest.count())));
    if (ready == 0) {
      return 0;
    }
    signalfd_siginfo info{};
    if (ready > 0 && ::read(signals, &info, sizeof info) == sizeof info &&
        info.ssi_signo != SIGUSR2 && info.ssi_signo != SIGQUIT) {
      return static_cast<int>(info.ssi_signo);
    }
  }
}

}  // namespace

Restarts::Restarts(int most, std::chrono::milliseconds first_wait, Console& console)
    : most_(most), wait_(first_wait), console_(console) {}

bool Restarts::next(const Verdict& verdict, int signals) {
  if (!verdict.cause || most_ == 0) {
    return false;
  }
  const auto update = static_cast<std::int64_t>(verdict.cause->end.beat.update);
  if (const std::string reason = reason_against(*verdict.cause, update); !reason.empty()) {
    console_.note(concat("launcher: no restart: ", reason));
    return false;
  }
  last_update_ = update;
  ++count_;
  console_.note(concat("launcher: restart ", count_, " of ", most_, " in ", to_text(wait_),
                       ", from the last valid checkpoint"));
  stopped_by_ = wait_before_restart(wait_, signals);
  if (stopped_by_ != 0) {
    console_.note(concat("launcher: ", signal_name(stopped_by_),
                         ": no restart; the same command goes on from the last valid checkpoint"));
  }
  constexpr std::chrono::minutes kLongestWait{5};
  wait_ = std::min<std::chrono::milliseconds>(2 * wait_, kLongestWait);
  return stopped_by_ == 0;
}

std::string Restarts::reason_against(const Failure& cause, std::int64_t update) const {
  if (!can_go_away(cause)) {
    return concat("a failure of the category ", category_name(cause.category), " would come again");
  }
  if (count_ == most_) {
    return concat("--max-restarts ", most_, " is used up");
  }
  if (last_update_ == update) {
    return concat("it failed twice at update ", update);
  }
  return "";
}

}  // namespace temper
