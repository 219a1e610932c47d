#pragma once
// Who started this process, decided from the environment. Ranks never guess: a half-set or
// contradictory environment is a ConfigError that lists what is there and what is missing.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace temper {

// Value of the option --launcher.
enum class LauncherChoice { kAuto, kSpawn, kEnvironment, kSlurm, kMpi, kNone };

// auto, spawn, env, slurm, mpi or none; ConfigError for anything else.
[[nodiscard]] LauncherChoice parse_launcher_choice(std::string_view text);

enum class LauncherKind {
  kSpawn,     // our own launcher
  kTorchrun,  // torchrun, or the same variables set by hand
  kSlurm,     // a task of srun
  kMpi,       // mpirun of Open MPI or of the MPICH family
  kNone,      // a single process without supervision
};

// The name in "world size N (launcher: ...)".
[[nodiscard]] std::string_view launcher_name(LauncherKind kind);

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int nodes = 1;  // as the launcher counts them; several may share a machine
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;  // 0 with LauncherKind::kNone: rank 0 hosts on any free port
  // Taken from a host list, not from MASTER_ADDR.
  bool master_is_derived = false;
  LauncherKind launcher = LauncherKind::kNone;
  // True when launcher or agent host the store and every rank connects; else rank 0 hosts it.
  bool store_is_hosted = false;
  int restart_count = 0;
  std::string run_id{};         // torchrun's run id; empty otherwise
  std::string run_directory{};  // chosen by our launcher; empty otherwise
  bool console_is_terminal = false;
  // Not from the environment: options of the command line that every rank gets, too.
  std::chrono::milliseconds peer_grace = std::chrono::seconds(10);
  std::optional<std::chrono::milliseconds> hang_timeout{};  // none: hangs are not looked for
};

using EnvironmentVariables = std::map<std::string, std::string>;
[[nodiscard]] EnvironmentVariables environment_variables();

// nullopt: this process is the launcher. Order: a worker of our launcher stays one whatever
// `choice` says; the variables of torchrun; a Slurm step of several tasks; Open MPI; PMI. Neither,
// but inside a Slurm allocation of several tasks, is a ConfigError with the line to use, which
// repeats `command` (the original argv).
[[nodiscard]] std::optional<RankEnvironment> detect_environment(
    LauncherChoice choice, const EnvironmentVariables& variables = environment_variables(),
    std::span<const std::string> command = {});

// How often Slurm has started the job again; 0 outside a job.
[[nodiscard]] int slurm_requeues(const EnvironmentVariables& variables = environment_variables());

// "1234", or "1234_7" for a task of an array; empty outside a Slurm job. The same after a requeue.
[[nodiscard]] std::string slurm_job(
    const EnvironmentVariables& variables = environment_variables());

}  // namespace temper
