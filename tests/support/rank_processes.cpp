#include "support/rank_processes.h"

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/dist/device.h"

extern char** environ;  // NOLINT

namespace temper::testing_support {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  std::filesystem::path output;
  int status = -1;  // -1: still running
};

const RankCases* forked_cases = nullptr;

// Listens before there is a server thread, so that a fork copies none.
int listen_on_free_port(std::uint16_t& port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(listener >= 0 &&
              ::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
              ::listen(listener, SOMAXCONN) == 0 &&
              ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "cannot listen: error ", errno);
  port = ntohs(address.sin_port);
  return listener;
}

std::vector<std::string> rank_variables(const std::string& name, int rank, int world_size,
                                        std::uint16_t port) {
  return {concat("TEMPER_TEST_CASE=", name), concat("TEMPER_TEST_RANK=", rank),
          concat("TEMPER_TEST_WORLD=", world_size), concat("TEMPER_TEST_PORT=", port)};
}

[[noreturn]] void be_rank(std::vector<std::string> variables, const Child& child, int listener) {
  ::close(listener);
  const int output = ::open(child.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::close(output);
  for (std::string& variable : variables) {
    ::putenv(variable.data());  // lives until the process ends
  }
  const int status = run_as_rank(*forked_cases);
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
}

// In a program of its own.
pid_t spawn_rank(std::vector<std::string> variables, const Child& child) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::vector<char*> pointers;
  for (std::string& variable : variables) {
    pointers.push_back(variable.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, child.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::string program = "/proc/self/exe";
  std::vector<char*> arguments{program.data(), nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  require(error == 0, "cannot start a rank: error ", error);
  return pid;
}

Child start_rank(const std::string& name, int rank, int world_size, std::uint16_t port,
                 int listener) {
  Child child;
  child.output = std::filesystem::temp_directory_path() /
                 concat("temper-", ::getpid(), "-", name, "-", rank, ".txt");
  const std::vector<std::string> variables = rank_variables(name, rank, world_size, port);
  if (forked_cases == nullptr) {
    child.pid = spawn_rank(variables, child);
    return child;
  }
  std::cout.flush();
  std::fflush(nullptr);
  child.pid = ::fork();
  require(child.pid >= 0, "cannot fork a rank: error ", errno);
  if (child.pid == 0) {
    be_rank(variables, child, listener);
  }
  return child;
}

int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<RankResult> run_ranks(const std::string& name, int world_size,
                                  std::chrono::seconds limit) {
  std::uint16_t port = 0;
  const int listener = listen_on_free_port(port);
  std::vector<Child> children;
  for (int rank = 0; rank < world_size; ++rank) {
    children.push_back(start_rank(name, rank, world_size, port, listener));
  }
  const Store store = Store::host({.world_size = world_size, .listening_descriptor = listener});
  const auto deadline = Clock::now() + limit;
  std::size_t running = children.size();
  bool killed = false;
  while (running > 0) {
    if (!killed && Clock::now() > deadline) {
      for (const Child& child : children) {
        if (child.status < 0) {
          ::kill(child.pid, SIGKILL);
        }
      }
      killed = true;
    }
    for (Child& child : children) {
      int wait_status = 0;
      if (child.status < 0 && ::waitpid(child.pid, &wait_status, WNOHANG) == child.pid) {
        child.status = status_of(wait_status);
        --running;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::vector<RankResult> results;
  for (const Child& child : children) {
    results.push_back({child.status, read_file(child.output)});
    std::filesystem::remove(child.output);
  }
  return results;
}

void expect_ranks_pass(const std::string& name, int world_size) {
  const auto results = run_ranks(name, world_size);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].status, 0) << "rank " << rank << ": " << results[rank].output;
  }
}

void fork_ranks(const RankCases& cases) {
  at::set_num_threads(1);  // a fork has no copy of a thread pool
  forked_cases = &cases;
}

int run_as_rank(const RankCases& cases, Backend backend) {
  const std::string name = variable("TEMPER_TEST_CASE");
  if (name.empty()) {
    return -1;
  }
  try {
    at::set_num_threads(1);
    const int rank = std::stoi(variable("TEMPER_TEST_RANK"));
    const int world_size = std::stoi(variable("TEMPER_TEST_WORLD"));
    const auto port = static_cast<std::uint16_t>(std::stoi(variable("TEMPER_TEST_PORT")));
    Store store = Store::connect("127.0.0.1", port, std::chrono::seconds(30));
    if (backend == Backend::kNccl) {
      bind_gpu(rank);
    }
    const auto collectives = std::make_shared<CollectiveLog>();
    const auto communicator = make_communicator(&store, {.rank = rank,
                                                         .world_size = world_size,
                                                         .backend = backend,
                                                         .device_index = rank,
                                                         .timeout = std::chrono::seconds(30),
                                                         .observer = collectives});
    RankWorld world{.rank = rank,
                    .world_size = world_size,
                    .store = store,
                    .communicator = *communicator,
                    .collectives = *collectives};
    cases.at(name)(world);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace temper::testing_support
