#include "support/traced_child.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace temper::testing_support {
namespace {

using SyscallInfo = __ptrace_syscall_info;

constexpr int kTracingRefused = 99;

[[noreturn]] void work_and_exit(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    ::_exit(1);
  }
  ::_exit(0);
}

int exit_status_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string text_at(pid_t child, std::uint64_t address) {
  std::ifstream memory("/proc/" + std::to_string(child) + "/mem", std::ios::binary);
  memory.seekg(static_cast<std::streamoff>(address));
  std::string text;
  std::getline(memory, text, '\0');
  return text;
}

std::string file_of(pid_t child, std::uint64_t descriptor) {
  std::error_code ignored;  // a descriptor that is not open has no file
  return std::filesystem::read_symlink(
      "/proc/" + std::to_string(child) + "/fd/" + std::to_string(descriptor), ignored);
}

std::optional<FileCall> describe(pid_t child, const SyscallInfo& info) {
  const auto& call = info.entry;
  const auto text = [&](std::size_t argument) { return text_at(child, call.args[argument]); };
  switch (call.nr) {
    case SYS_openat:
      return (call.args[2] & O_CREAT) != 0 ? std::optional(FileCall{"open", text(1), ""})
                                           : std::nullopt;
    case SYS_write:
    case SYS_pwrite64:
      return FileCall{"write", file_of(child, call.args[0]), ""};
    case SYS_fsync:
    case SYS_fdatasync:
      return FileCall{"fsync", file_of(child, call.args[0]), ""};
    case SYS_renameat:
    case SYS_renameat2:
      return FileCall{"rename", text(1), text(3)};
    case SYS_unlinkat:
      return FileCall{"unlink", text(1), ""};
    case SYS_mkdirat:
      return FileCall{"mkdir", text(1), ""};
#ifdef SYS_rename  // newer architectures have the forms above alone
    case SYS_open:
      return (call.args[1] & O_CREAT) != 0 ? std::optional(FileCall{"open", text(0), ""})
                                           : std::nullopt;
    case SYS_rename:
      return FileCall{"rename", text(0), text(1)};
    case SYS_unlink:
      return FileCall{"unlink", text(0), ""};
    case SYS_mkdir:
      return FileCall{"mkdir", text(0), ""};
#endif
    default:
      return std::nullopt;
  }
}

pid_t start_traced(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(kTracingRefused);
    }
    ::raise(SIGSTOP);
    work_and_exit(work);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
    throw std::runtime_error("this system does not allow a process to trace its child");
  }
  return child;
}

}  // namespace

ChildRun run_traced(const std::function<void()>& work, std::optional<std::size_t> kill_at) {
  const pid_t child = start_traced(work);
  ChildRun run;
  int signal = 0;
  while (true) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    signal = 0;
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
      run.status = exit_status_of(status);
      return run;
    }
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      signal = WSTOPSIG(status);
      continue;
    }
    SyscallInfo info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) {
      continue;
    }
    if (const std::optional<FileCall> call = describe(child, info)) {
      run.calls.push_back(*call);
      if (kill_at && run.calls.size() == *kill_at + 1) {
        ::kill(child, SIGKILL);
      }
    }
  }
}

int run_in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work_and_exit(work);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) {
    throw std::runtime_error("cannot run a child process");
  }
  return exit_status_of(status);
}

void make_call_fail(long number, int code) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(code)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{.len = std::size(filter), .filter = filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("cannot filter system calls");
  }
}

}  // namespace temper::testing_support
