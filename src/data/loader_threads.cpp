#include "data/loader_threads.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace temper {
namespace {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGQUIT);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// On Linux a priority belongs to a thread.
void lower_priority() {
  constexpr int kNicer = 5;
  const auto thread = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kNicer);
}

}  // namespace

std::thread start_loader_thread(const char* name, std::function<void()> work) {
  const BlockedSignals blocked;  // inherited
  return std::thread([name, work = std::move(work)] {
    pthread_setname_np(pthread_self(), name);
    lower_priority();
    work();
  });
}

}  // namespace temper
