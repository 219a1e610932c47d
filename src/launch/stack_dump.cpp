#include "temper/launch/stack_dump.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "launch/stack_trace.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// Everything below runs in a signal handler: system calls, no memory from the heap. backtrace() is
// not promised to be safe there, but is once libgcc is loaded, which answer_stack_requests sees to.

constexpr int kMostFrames = 64;
std::atomic_flag writing = ATOMIC_FLAG_INIT;
std::atomic<int> unanswered{0};
std::atomic<const SymbolMap*> symbols{nullptr};  // stays to the end: a handler may run at any time

void pause_a_millisecond() {
  const timespec pause{0, 1'000'000};
  ::nanosleep(&pause, nullptr);
}

void write_text(std::string_view text) {
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
}

class ShortText {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      if (size_ < bytes_.size()) {
        bytes_[size_++] = c;
      }
    }
  }
  void add(int number) {
    std::array<char, 12> digits{};
    std::size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    while (count > 0) {
      add(std::string_view(&digits[--count], 1));
    }
  }
  [[nodiscard]] std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 320> bytes_{};
  std::size_t size_ = 0;
};

// The program's own functions, which it does not export, come from its symbol table.
void write_frame(void* address) {
  const SymbolMap* map = symbols.load();
  const SymbolMap::Place place = map == nullptr ? SymbolMap::Place() : map->find(address);
  if (place.function.empty()) {
    ::backtrace_symbols_fd(&address, 1, STDERR_FILENO);
    return;
  }
  constexpr std::size_t kLongestName = 200;
  ShortText text;
  text.add(place.module);
  text.add("(");
  text.add(place.function.substr(0, kLongestName));
  text.add("+");
  text.add(static_cast<int>(place.offset));
  text.add(")\n");
  write_text(text.text());
}

void write_own_stack() {
  constexpr int kMostWaits = 500;  // a thread that died while it wrote must not stop the others
  for (int i = 0; i < kMostWaits && writing.test_and_set(); ++i) {
    pause_a_millisecond();
  }
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  ShortText title;
  title.add("stack of thread ");
  title.add(static_cast<int>(::syscall(SYS_gettid)));
  title.add(" (");
  title.add(name.data());
  title.add("):\n");
  write_text(title.text());
  std::array<void*, kMostFrames> frames{};
  const int count = ::backtrace(frames.data(), kMostFrames);
  constexpr int kOwnFrames = 2;  // of this function and the handler
  for (int i = kOwnFrames; i < count; ++i) {
    write_frame(frames[static_cast<std::size_t>(i)]);
  }
  unanswered.fetch_sub(1);
  writing.clear();
}

// The kernel's layout of a directory entry; readdir() would take memory.
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

int number_of(const char* name) {
  int value = 0;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9') {
      return 0;
    }
    value = value * 10 + (*name - '0');
  }
  return value;
}

void ask_all_threads() {
  const int folder = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    write_own_stack();
    return;
  }
  const pid_t process = ::getpid();
  alignas(DirectoryEntry) std::array<char, 2048> buffer;
  while (true) {
    const long bytes = ::syscall(SYS_getdents64, folder, buffer.data(), buffer.size());
    if (bytes <= 0) {
      break;
    }
    for (long place = 0; place < bytes;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer.data() + place);
      const char* name = buffer.data() + place + offsetof(DirectoryEntry, name);
      if (const int thread = number_of(name); thread > 0) {
        unanswered.fetch_add(1);
        if (::syscall(SYS_tgkill, process, thread, SIGQUIT) != 0) {
          unanswered.fetch_sub(1);
        }
      }
      place += entry->length;
    }
  }
  ::close(folder);
}

extern "C" void temper_write_stack(int, siginfo_t* info, void*) {
  const int saved = errno;
  if (info->si_code == SI_TKILL) {
    write_own_stack();
  } else {
    ask_all_threads();
  }
  errno = saved;
}

}  // namespace

void answer_stack_requests() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  if (symbols.load() == nullptr) {
    symbols.store(new SymbolMap());
  }
  struct sigaction action {};
  action.sa_sigaction = temper_write_stack;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  if (::sigaction(SIGQUIT, &action, nullptr) != 0) {
    throw_errno("cannot handle SIGQUIT");
  }
  sigset_t quit;  // a request that came before is answered now
  ::sigemptyset(&quit);
  ::sigaddset(&quit, SIGQUIT);
  ::pthread_sigmask(SIG_UNBLOCK, &quit, nullptr);
}

void write_all_stacks() {
  ask_all_threads();
  constexpr int kMostWaits = 1000;
  for (int i = 0; i < kMostWaits && unanswered.load() > 0; ++i) {
    pause_a_millisecond();
  }
}

}  // namespace temper
