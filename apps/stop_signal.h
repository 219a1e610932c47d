#pragma once
// Ctrl-C and SIGTERM for programs that run in one process.

#include <atomic>
#include <csignal>

namespace temper::apps {

inline std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // as a signal handler needs it

// From now on SIGINT and SIGTERM are noted in stop_signal; a second one ends the program at once. A
// file over the limit of `ulimit -f` is an error of the write.
inline void catch_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::signal(signal, [](int received) {
      std::signal(received, SIG_DFL);
      stop_signal = received;
    });
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace temper::apps
