#include "temper/launch/environment.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::array kRankVariables = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr std::array kMasterVariables = {"MASTER_ADDR", "MASTER_PORT"};

const std::string* find(const EnvironmentVariables& variables, const std::string& name) {
  const auto entry = variables.find(name);
  return entry == variables.end() || entry->second.empty() ? nullptr : &entry->second;
}

int number(const EnvironmentVariables& variables, const std::string& name, int lowest,
           int highest) {
  const std::string* text = find(variables, name);
  require(text != nullptr, name, " is read before it is checked");
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < lowest ||
      value > highest) {
    throw ConfigError(concat("environment variable ", name, "='", *text,
                             "': expected a whole number from ", lowest, " to ", highest));
  }
  return value;
}

int number_or(const EnvironmentVariables& variables, const std::string& name, int lowest,
              int fallback) {
  return find(variables, name) == nullptr
             ? fallback
             : number(variables, name, lowest, std::numeric_limits<int>::max());
}

void require_below(int value, int bound, const char* value_name, const char* bound_name) {
  if (value >= bound) {
    throw ConfigError(concat("the environment contradicts itself: ", value_name, "=", value,
                             " must be below ", bound_name, "=", bound,
                             "; unset the variables or start through torchrun"));
  }
}

struct Tuple {
  std::vector<std::string> present;
  std::vector<std::string> missing;
  bool has_rank = false;
};

Tuple find_tuple(const EnvironmentVariables& variables) {
  Tuple tuple;
  for (const char* name : kRankVariables) {
    const bool found = find(variables, name) != nullptr;
    tuple.has_rank = tuple.has_rank || found;
    (found ? tuple.present : tuple.missing).emplace_back(name);
  }
  for (const char* name : kMasterVariables) {
    (find(variables, name) != nullptr ? tuple.present : tuple.missing).emplace_back(name);
  }
  return tuple;
}

void require_complete(const Tuple& tuple) {
  if (!tuple.missing.empty()) {
    const std::string present = tuple.present.empty() ? "none" : join(tuple.present, ", ");
    throw ConfigError(concat("the environment names a rank only in part: present ", present,
                             "; missing ", join(tuple.missing, ", "),
                             "; set all of them, or unset them and use --launcher spawn"));
  }
}

RankEnvironment read_tuple(const EnvironmentVariables& variables) {
  constexpr int kMost = std::numeric_limits<int>::max();
  RankEnvironment result;
  result.world_size = number(variables, "WORLD_SIZE", 1, kMost);
  result.rank = number(variables, "RANK", 0, kMost);
  result.local_rank = number(variables, "LOCAL_RANK", 0, kMost);
  result.local_world_size = number_or(variables, "LOCAL_WORLD_SIZE", 1, result.world_size);
  require_below(result.rank, result.world_size, "RANK", "WORLD_SIZE");
  require_below(result.local_rank, result.local_world_size, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  require_below(result.local_world_size - 1, result.world_size, "LOCAL_WORLD_SIZE - 1",
                "WORLD_SIZE");
  result.master_address = *find(variables, "MASTER_ADDR");
  result.master_port = static_cast<std::uint16_t>(number(variables, "MASTER_PORT", 1, 65535));
  return result;
}

RankEnvironment torchrun_rank(const EnvironmentVariables& variables) {
  RankEnvironment result = read_tuple(variables);
  result.launcher = LauncherKind::kTorchrun;
  const std::string* agent_store = find(variables, "TORCHELASTIC_USE_AGENT_STORE");
  result.store_is_hosted = agent_store != nullptr && *agent_store == "True";
  result.restart_count = number_or(variables, "TORCHELASTIC_RESTART_COUNT", 0, 0);
  if (const std::string* id = find(variables, "TORCHELASTIC_RUN_ID")) {
    result.run_id = *id;
  }
  return result;
}

RankEnvironment own_rank(const EnvironmentVariables& variables, const std::string& launcher) {
  if (launcher != "spawn") {
    throw ConfigError(concat("environment variable TEMPER_LAUNCHER='", launcher,
                             "': it is set by Temper's launcher alone, to 'spawn'; unset it"));
  }
  require_complete(find_tuple(variables));
  RankEnvironment result = read_tuple(variables);
  result.launcher = LauncherKind::kSpawn;
  result.store_is_hosted = true;
  if (const std::string* folder = find(variables, "TEMPER_RUN_DIR")) {
    result.run_directory = *folder;
  }
  result.restart_count = number_or(variables, "TEMPER_RESTART_COUNT", 0, 0);
  const std::string* console = find(variables, "TEMPER_CONSOLE");
  result.console_is_terminal = console != nullptr && *console == "terminal";
  return result;
}

[[noreturn]] void refuse(const std::string& found) {
  throw ConfigError(concat(found,
                           ": this launcher is not supported yet and comes later; use "
                           "`--launcher spawn` for one host, or torchrun"));
}

bool more_than_one(const EnvironmentVariables& variables, const char* name) {
  return number_or(variables, name, 0, 0) > 1;
}

void refuse_slurm(const EnvironmentVariables& variables) {
  if (find(variables, "SLURM_STEP_ID") != nullptr) {
    if (more_than_one(variables, "SLURM_STEP_NUM_TASKS")) {
      refuse("this process is a task of a Slurm step (SLURM_STEP_NUM_TASKS > 1)");
    }
    return;
  }
  if (find(variables, "SLURM_JOB_ID") != nullptr && more_than_one(variables, "SLURM_NTASKS")) {
    const std::string& tasks = *find(variables, "SLURM_NTASKS");
    throw ConfigError(
        concat("inside a Slurm allocation of ", tasks,
               " tasks, but not in a step: one process would run "
               "instead of ",
               tasks, "; the line to use is `srun --ntasks=", tasks,
               " --kill-on-bad-exit=1 trainer ...`, but Slurm steps come later: for now use "
               "`--launcher spawn --nproc N` on one host"));
  }
}

void refuse_mpi(const EnvironmentVariables& variables) {
  if (more_than_one(variables, "OMPI_COMM_WORLD_SIZE")) {
    refuse("started by mpirun of Open MPI (OMPI_COMM_WORLD_SIZE > 1)");
  }
  if (more_than_one(variables, "PMI_SIZE")) {
    refuse("started by an MPI launcher (PMI_SIZE > 1)");
  }
}

std::optional<RankEnvironment> detect_automatically(const EnvironmentVariables& variables) {
  const Tuple tuple = find_tuple(variables);
  // Job scripts export MASTER_ADDR and MASTER_PORT for Slurm's tasks, so these alone name no rank.
  if (tuple.has_rank) {
    require_complete(tuple);
    return torchrun_rank(variables);
  }
  refuse_slurm(variables);
  refuse_mpi(variables);
  if (!tuple.present.empty()) {
    require_complete(tuple);
  }
  return std::nullopt;
}

}  // namespace

LauncherChoice parse_launcher_choice(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, LauncherChoice>, 6> kChoices = {{
      {"auto", LauncherChoice::kAuto},
      {"spawn", LauncherChoice::kSpawn},
      {"env", LauncherChoice::kEnvironment},
      {"slurm", LauncherChoice::kSlurm},
      {"mpi", LauncherChoice::kMpi},
      {"none", LauncherChoice::kNone},
  }};
  for (const auto& [name, choice] : kChoices) {
    if (text == name) {
      return choice;
    }
  }
  throw ConfigError(
      concat("--launcher '", text, "': expected auto, spawn, env, slurm, mpi or none"));
}

std::string_view launcher_name(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::kSpawn:
      return "spawn";
    case LauncherKind::kTorchrun:
      return "torchrun";
    case LauncherKind::kNone:
      break;
  }
  return "none";
}

EnvironmentVariables environment_variables() {
  EnvironmentVariables result;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t sign = text.find('=');
    if (sign != std::string_view::npos) {
      result.emplace(text.substr(0, sign), text.substr(sign + 1));
    }
  }
  return result;
}

std::optional<RankEnvironment> detect_environment(LauncherChoice choice,
                                                  const EnvironmentVariables& variables) {
  if (const std::string* launcher = find(variables, "TEMPER_LAUNCHER")) {
    return own_rank(variables, *launcher);
  }
  switch (choice) {
    case LauncherChoice::kAuto:
      return detect_automatically(variables);
    case LauncherChoice::kSpawn:
      return std::nullopt;
    case LauncherChoice::kEnvironment:
      require_complete(find_tuple(variables));
      return torchrun_rank(variables);
    case LauncherChoice::kSlurm:
      refuse("--launcher slurm");
    case LauncherChoice::kMpi:
      refuse("--launcher mpi");
    case LauncherChoice::kNone:
      break;
  }
  return RankEnvironment{};
}

}  // namespace temper
