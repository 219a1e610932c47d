#include "temper/launch/job_time.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "launch/rank_process.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/units.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<int> read_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::string read_until(int descriptor, Clock::time_point end) {
  std::string text;
  std::array<char, 512> buffer{};
  while (true) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(rest.count(), 0)));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    const ssize_t count = ready > 0 ? ::read(descriptor, buffer.data(), buffer.size()) : 0;
    if (count <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// What the program writes; empty when it cannot be started. It is killed when the time is up.
std::string output_of(std::vector<std::string> command, std::chrono::milliseconds timeout) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_errno("cannot make a pipe");
  }
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  input.reset();
  if (error != 0) {
    return {};
  }
  std::string text = read_until(output.get(), Clock::now() + timeout);
  ::kill(pid, SIGKILL);  // it has closed its output, or takes too long
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

}  // namespace

std::optional<std::chrono::seconds> parse_slurm_time(std::string_view text) {
  int days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = read_number(text.substr(0, dash));
    if (!number) {
      return std::nullopt;
    }
    days = *number;
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    return std::nullopt;
  }
  std::int64_t seconds = 0;
  for (const std::string& part : parts) {
    const auto number = read_number(part);
    if (!number) {
      return std::nullopt;
    }
    seconds = seconds * 60 + *number;
  }
  constexpr std::int64_t kDay = 86'400;
  return std::chrono::seconds(days * kDay + seconds);
}

std::optional<std::chrono::milliseconds> time_left_in_job() {
  const char* job = std::getenv("SLURM_JOB_ID");
  if (job == nullptr || *job == '\0') {
    log_info("training.max_time=auto: not in a Slurm job, no limit");
    return std::nullopt;
  }
  constexpr std::chrono::seconds kPatience{10};
  const std::string answer = output_of({"squeue", "-h", "-j", job, "-o", "%L"}, kPatience);
  const auto left = parse_slurm_time(trim(answer));
  if (!left) {
    log_warning("training.max_time=auto: `squeue -h -j ", job, " -o %L` says '", trim(answer),
                "', no end of the job: no limit");
    return std::nullopt;
  }
  using std::chrono::milliseconds;
  const milliseconds reserve =
      std::clamp<milliseconds>(*left / 10, std::chrono::seconds(5), std::chrono::minutes(2));
  const milliseconds limit = std::max<milliseconds>(*left - reserve, milliseconds(1));
  log_info("training.max_time=auto: the Slurm job ends in ", to_text(milliseconds(*left)),
           ", this run saves and stops after ", to_text(limit));
  return limit;
}

}  // namespace temper
