#include "launch/rank_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "launch/hang_watch.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr const char* kProgram = "/proc/self/exe";

struct Pipe {
  FileDescriptor reading;
  FileDescriptor writing;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw_errno("cannot make a pipe for a rank; raise `ulimit -n`");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    result.push_back(const_cast<char*>(text.c_str()));  // exec does not write to it  NOLINT
  }
  result.push_back(nullptr);
  return result;
}

struct ChildSetup {
  pid_t launcher;
  char* const* arguments;
  char* const* environment;
  int inherited;
  int input;
  int output;
  int error;
  int result;
};

void reset_signals() {
  // SIGHUP stays ignored under nohup.
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGHUP) {
      ::signal(number, SIG_DFL);
    }
  }
  // Requests that do not end a rank, or end it with a status of its own, wait for its handlers.
  sigset_t waiting;
  ::sigemptyset(&waiting);
  for (const int number : {SIGUSR1, SIGUSR2, SIGQUIT}) {
    ::sigaddset(&waiting, number);
  }
  ::sigprocmask(SIG_SETMASK, &waiting, nullptr);
}

// When memory runs out the kernel should end a rank and not the launcher, who can say why. A score
// that somebody has chosen stays.
void offer_itself_first() {
  const int file = ::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  if (file < 0) {
    return;
  }
  char first = 0;
  if (::read(file, &first, 1) == 1 && first == '0') {
    constexpr std::string_view kScore = "300";
    [[maybe_unused]] const ssize_t count = ::pwrite(file, kScore.data(), kScore.size(), 0);
  }
  ::close(file);
}

bool set_up_child(const ChildSetup& setup) {
  if (::setpgid(0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
    return false;
  }
  if (::getppid() != setup.launcher) {
    ::_exit(128 + SIGTERM);
  }
  if (::dup2(setup.input, STDIN_FILENO) < 0 || ::dup2(setup.output, STDOUT_FILENO) < 0 ||
      ::dup2(setup.error, STDERR_FILENO) < 0) {
    return false;
  }
  // Older kernels lack the call; then what others opened without O_CLOEXEC stays open.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (setup.inherited >= 0 && ::fcntl(setup.inherited, F_SETFD, 0) != 0) {
    return false;
  }
  reset_signals();
  offer_itself_first();
  return true;
}

[[noreturn]] void run_child(const ChildSetup& setup) {
  if (set_up_child(setup)) {
    ::execve(kProgram, setup.arguments, setup.environment);
  }
  const int code = errno;
  // Nobody is left to tell if this fails.
  [[maybe_unused]] const ssize_t count = ::write(setup.result, &code, sizeof code);
  ::_exit(127);
}

// The child's end of the pipe closes by exec; before that only an error number can come.
void require_started(int descriptor, pid_t pid) {
  int code = 0;
  ssize_t count = 0;
  do {
    count = ::read(descriptor, &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof code) {
    ::waitpid(pid, nullptr, 0);
    throw SystemError("cannot start a rank", code);
  }
}

void set_nonblocking(const FileDescriptor& descriptor) {
  if (::fcntl(descriptor.get(), F_SETFL, O_NONBLOCK) != 0) {
    throw_errno("cannot read a rank's output without blocking");
  }
}

// Living or dead, but not waited for.
std::vector<pid_t> children() {
  std::vector<pid_t> result;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator("/proc")) {
    pid_t pid = 0;
    const std::string name = entry.path().filename().string();
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc() &&
        parent_of(pid) == ::getpid()) {
      result.push_back(pid);
    }
  }
  return result;
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    descriptor_ = other.release();
  }
  return *this;
}

void FileDescriptor::reset() {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
}

int FileDescriptor::release() { return std::exchange(descriptor_, -1); }

RankProcess start_rank(const RankCommand& command) {
  const std::vector<char*> arguments = pointers(command.arguments);
  const std::vector<char*> environment = pointers(command.environment);
  const FileDescriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  Pipe result = make_pipe();
  set_nonblocking(output.reading);
  set_nonblocking(error.reading);
  const ChildSetup setup{.launcher = ::getpid(),
                         .arguments = arguments.data(),
                         .environment = environment.data(),
                         .inherited = command.inherited_descriptor,
                         .input = input.get(),
                         .output = output.writing.get(),
                         .error = error.writing.get(),
                         .result = result.writing.get()};
  RankProcess rank;
  rank.pid = ::fork();
  if (rank.pid < 0) {
    throw_errno("cannot start a rank; `ulimit -u` limits the number of processes");
  }
  if (rank.pid == 0) {
    run_child(setup);
  }
  result.writing.reset();
  require_started(result.reading.get(), rank.pid);
  rank.process = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, rank.pid, 0)));
  if (!rank.process.is_open()) {
    const int code = errno;
    ::kill(rank.pid, SIGKILL);
    ::waitpid(rank.pid, nullptr, 0);
    throw SystemError("cannot watch a rank (Linux 5.3 or newer is needed)", code);
  }
  rank.output = std::move(output.reading);
  rank.error = std::move(error.reading);
  return rank;
}

void end_children() {
  constexpr int kMostRounds = 100;  // each may bring up children of the ended ones
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<pid_t> left = children();
    if (left.empty()) {
      return;
    }
    for (const pid_t child : left) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
}

}  // namespace temper
