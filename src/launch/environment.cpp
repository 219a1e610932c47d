#include "temper/launch/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "launch/scheduler_environment.h"
#include "launch/variables.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::array kRankVariables = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr std::array kMasterVariables = {"MASTER_ADDR", "MASTER_PORT"};

bool any_set(const EnvironmentVariables& variables, std::span<const char* const> names) {
  return std::ranges::any_of(names,
                             [&](const char* name) { return find(variables, name) != nullptr; });
}

void require_tuple(const EnvironmentVariables& variables) {
  require_all(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"},
              "the environment names a rank only in part",
              "set all of them, or unset them and use --launcher spawn");
}

RankEnvironment read_tuple(const EnvironmentVariables& variables) {
  require_tuple(variables);
  RankEnvironment result;
  result.world_size = number(variables, "WORLD_SIZE", 1);
  result.rank = number(variables, "RANK", 0);
  result.local_rank = number(variables, "LOCAL_RANK", 0);
  result.local_world_size = number_or(variables, "LOCAL_WORLD_SIZE", 1, result.world_size);
  require_below(result.rank, result.world_size, "RANK", "WORLD_SIZE");
  require_below(result.local_rank, result.local_world_size, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  require_below(result.local_world_size - 1, result.world_size, "LOCAL_WORLD_SIZE - 1",
                "WORLD_SIZE");
  result.nodes =
      number_or(variables, "GROUP_WORLD_SIZE", 1,
                (result.world_size + result.local_world_size - 1) / result.local_world_size);
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
  RankEnvironment result = read_tuple(variables);
  result.launcher = LauncherKind::kSpawn;
  result.store_is_hosted = true;
  if (const std::string* folder = find(variables, "TEMPER_RUN_DIR")) {
    result.run_directory = *folder;
  }
  const std::string* console = find(variables, "TEMPER_CONSOLE");
  result.console_is_terminal = console != nullptr && *console == "terminal";
  return result;
}

// Two launchers that name different ranks for this process: one of them is left over.
void require_agreement(const RankEnvironment& chosen, const char* chosen_name,
                       const EnvironmentVariables& variables, const char* rank_name,
                       const char* size_name) {
  if (!more_than_one(variables, size_name) || find(variables, rank_name) == nullptr) {
    return;
  }
  const int rank = number(variables, rank_name, 0);
  const int size = number(variables, size_name, 1);
  if (rank != chosen.rank || size != chosen.world_size) {
    throw ConfigError(concat("the environment names two ranks: rank ", chosen.rank, " of ",
                             chosen.world_size, " by ", chosen_name, ", and ", rank_name, "=", rank,
                             " of ", size_name, "=", size,
                             "; unset the variables that are left over, or choose with "
                             "--launcher env, slurm or mpi"));
  }
}

std::optional<RankEnvironment> detect_automatically(const EnvironmentVariables& variables,
                                                    std::span<const std::string> command) {
  // Job scripts export MASTER_ADDR and MASTER_PORT for Slurm's tasks, so these alone name no rank.
  if (any_set(variables, kRankVariables)) {
    RankEnvironment rank = torchrun_rank(variables);
    // An agent of torchrun may itself be a task of a step.
    if (rank.run_id.empty()) {
      if (is_slurm_task(variables)) {
        require_agreement(rank, "RANK and WORLD_SIZE", variables, "SLURM_PROCID",
                          "SLURM_STEP_NUM_TASKS");
      }
      require_agreement(rank, "RANK and WORLD_SIZE", variables, "OMPI_COMM_WORLD_RANK",
                        "OMPI_COMM_WORLD_SIZE");
    }
    return rank;
  }
  if (is_slurm_task(variables)) {
    RankEnvironment rank = slurm_rank(variables);
    // mpirun starts its own daemons by srun: their processes see both.
    require_agreement(rank, "the Slurm step", variables, "OMPI_COMM_WORLD_RANK",
                      "OMPI_COMM_WORLD_SIZE");
    return rank;
  }
  if (is_mpi_process(variables)) {
    return mpi_rank(variables);
  }
  require_step(variables, command);
  if (any_set(variables, kMasterVariables) && find(variables, "SLURM_JOB_ID") == nullptr) {
    require_tuple(variables);
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
    case LauncherKind::kSlurm:
      return "srun";
    case LauncherKind::kMpi:
      return "mpirun";
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
                                                  const EnvironmentVariables& variables,
                                                  std::span<const std::string> command) {
  if (const std::string* launcher = find(variables, "TEMPER_LAUNCHER")) {
    return own_rank(variables, *launcher);
  }
  switch (choice) {
    case LauncherChoice::kAuto:
      return detect_automatically(variables, command);
    case LauncherChoice::kSpawn:
      return std::nullopt;
    case LauncherChoice::kEnvironment:
      return torchrun_rank(variables);
    case LauncherChoice::kSlurm:
      return slurm_rank(variables);
    case LauncherChoice::kMpi:
      return mpi_rank(variables);
    case LauncherChoice::kNone:
      break;
  }
  return RankEnvironment{};
}

}  // namespace temper
