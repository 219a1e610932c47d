#pragma once
// Runs a piece of code in a child process and watches the system calls by which it changes files.

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace temper::testing_support {

struct FileCall {
  std::string name;    // open (to create), write, fsync, rename, unlink or mkdir
  std::string path;    // of the file
  std::string target;  // of rename
};

struct ChildRun {
  std::vector<FileCall> calls;
  int status = 0;  // exit status, or 128 + signal
};

// `work` must not start threads. `kill_at`: the child is killed by SIGKILL when it begins the call
// of that place. Throws std::runtime_error when the system does not allow tracing.
[[nodiscard]] ChildRun run_traced(const std::function<void()>& work,
                                  std::optional<std::size_t> kill_at = std::nullopt);

// The same without tracing.
[[nodiscard]] int run_in_child(const std::function<void()>& work);

// From now on the system call of this number fails with `code` in this process. For a child.
void make_call_fail(long number, int code);

}  // namespace temper::testing_support
