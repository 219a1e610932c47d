// The trainer with a fault: TEMPER_FAULT=RANK:PHASE:UPDATE:KIND makes that rank fail when it enters
// the phase in that update, or at first with * for the update. Kinds: throw, data, memory, exit,
// kill, segv, stop, loop. The rest of the command line is that of `trainer`, in the few options
// that the tests use.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/text.h"
#include "temper/core/units.h"
#include "temper/recipe/train_command.h"

namespace temper {
namespace {

void fail(std::string_view kind) {
  if (kind == "throw") {
    throw std::runtime_error("a fault of the test");
  }
  if (kind == "data") {
    throw DataError("class/b.png: a fault of the test");
  }
  if (kind == "memory") {
    throw std::bad_alloc();
  }
  if (kind == "exit") {
    ::_exit(0);
  }
  if (kind == "loop") {
    volatile bool forever = true;
    while (forever) {
    }
  }
  const int signal = kind == "kill" ? SIGKILL : kind == "segv" ? SIGSEGV : SIGSTOP;
  ::raise(signal);
}

struct Fault {
  int rank = -1;
  std::string phase{};
  std::optional<std::uint64_t> update{};
  std::string kind{};
};

Fault fault_from_environment() {
  const char* text = std::getenv("TEMPER_FAULT");
  if (text == nullptr || *text == '\0') {
    return {};
  }
  const std::vector<std::string> parts = split(text, ':');
  return {.rank = std::stoi(parts.at(0)),
          .phase = parts.at(1),
          .update = parts.at(2) == "*" ? std::nullopt : std::optional(std::stoull(parts.at(2))),
          .kind = parts.at(3)};
}

TrainCommand parse(int argc, char** argv) {
  TrainCommand command;
  command.start.command.assign(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] { return std::string(argv[++i]); };
    if (name == "--config") {
      command.configs.emplace_back(value());
    } else if (name == "--nproc") {
      command.start.processes = value();
    } else if (name == "--run-dir") {
      command.run_directory = value();
    } else if (name == "--resume") {
      command.resume = value();
    } else if (name == "--peer-grace") {
      command.start.peer_grace = parse_duration(value());
    } else if (name == "--hang-timeout") {
      command.start.hang_timeout = parse_duration(value());
    } else if (name == "--max-restarts") {
      command.start.max_restarts = std::stoi(value());
    } else {
      command.overrides.push_back(name);
    }
  }
  const Fault fault = fault_from_environment();
  command.on_phase = [fault](const RankEnvironment& rank, std::string_view phase,
                             std::uint64_t update) {
    if (rank.rank == fault.rank && phase == fault.phase &&
        update == fault.update.value_or(update) && rank.restart_count == 0) {
      fail(fault.kind);
    }
  };
  return command;
}

}  // namespace
}  // namespace temper

int main(int argc, char** argv) {
  return temper::guard_main([&] { return temper::run_train_command(temper::parse(argc, argv)); });
}
