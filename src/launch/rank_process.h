#pragma once
// One child process of the launcher.

#include <sys/types.h>

#include <string>
#include <vector>

namespace temper {

// Closes its file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  void reset();
  [[nodiscard]] int release();

 private:
  int descriptor_ = -1;
};

struct RankCommand {
  std::vector<std::string> arguments{};    // run through /proc/self/exe
  std::vector<std::string> environment{};  // NAME=value
  int inherited_descriptor = -1;           // stays open in the child
};

struct RankProcess {
  pid_t pid = -1;
  FileDescriptor process;  // pidfd, readable when the process has ended
  FileDescriptor output;   // the reading ends of its standard output and error, not blocking
  FileDescriptor error;
};

// Starts a process in a group of its own, with the default signal actions, SIGUSR1, SIGUSR2 and
// SIGQUIT blocked until WorkerSignals and answer_stack_requests handle them, nothing on its
// standard input, a higher score for the kernel's out-of-memory killer, and SIGTERM to it when the
// calling thread ends. Other threads may exist: between fork and exec the child makes system calls
// alone. SystemError if the program cannot run.
[[nodiscard]] RankProcess start_rank(const RankCommand& command);

// Ends all children of this process by SIGKILL, and theirs: what ranks have started and left behind
// is the launcher's, which adopts it.
void end_children();

}  // namespace temper
