#include "support/rank_processes.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

Child start_rank(const std::string& name, int rank, int world_size, std::uint16_t port) {
  std::vector<std::string> variables{
      concat("TEMPER_TEST_CASE=", name), concat("TEMPER_TEST_RANK=", rank),
      concat("TEMPER_TEST_WORLD=", world_size), concat("TEMPER_TEST_PORT=", port)};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::vector<char*> pointers;
  for (std::string& variable : variables) {
    pointers.push_back(variable.data());
  }
  pointers.push_back(nullptr);
  Child child;
  child.output = std::filesystem::temp_directory_path() /
                 concat("temper-", ::getpid(), "-", name, "-", rank, ".txt");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, child.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::string program = "/proc/self/exe";
  std::vector<char*> arguments{program.data(), nullptr};
  const int error = posix_spawn(&child.pid, "/proc/self/exe", &actions, nullptr, arguments.data(),
                                pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  require(error == 0, "cannot start rank ", rank, ": error ", error);
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
  const Store store = Store::host({.world_size = world_size, .listening_descriptor = std::nullopt});
  std::vector<Child> children;
  for (int rank = 0; rank < world_size; ++rank) {
    children.push_back(start_rank(name, rank, world_size, store.port()));
  }
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
