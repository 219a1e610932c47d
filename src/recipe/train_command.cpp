#include "temper/recipe/train_command.h"

#include <iostream>
#include <optional>

#include "recipe/model_memory.h"
#include "recipe/resume.h"
#include "recipe/resume_rules.h"
#include "temper/core/error.h"
#include "temper/core/host_memory.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/launch/run_directory.h"
#include "temper/recipe/batch_script.h"
#include "temper/recipe/load_config.h"
#include "temper/recipe/memory_report.h"
#include "temper/recipe/training_run.h"

namespace temper {
namespace {

// The names of the catalogs, also of entries that a program of one's own has added.
MoreChoices choices_of(const Catalogs& catalogs) {
  return {{"model.architecture", catalogs.architectures.names()},
          {"method.name", catalogs.methods.names()},
          {"method.attack.name", catalogs.attacks.names()},
          {"validation.attack.name", catalogs.attacks.names()}};
}

LoadedConfig load(const TrainCommand& command, const Catalogs& catalogs) {
  std::vector<std::string> overrides;
  if (command.smoke > 0) {  // a few updates, one short validation, everything written
    overrides.emplace_back("validation.samples=64");  // unless the user wants more
  }
  overrides.insert(overrides.end(), command.overrides.begin(), command.overrides.end());
  if (command.smoke > 0) {
    overrides.push_back(concat("training.max_updates=", command.smoke));
  }
  return load_config(command.configs, overrides, choices_of(catalogs));
}

constexpr int kGpuCpus = 8;  // a task: one that computes, the others load
constexpr int kCpuCpus = 2;

std::string script(const TrainCommand& command, StartOptions start, const Config& config) {
  start.gpus = "all";  // the job's nodes are others: this host only says what auto may mean
  const int tasks =
      count_processes(start, start.processes == "auto" ? selected_gpus(start) : GpuSelection{});
  const bool gpus = start.uses_gpus && has_cuda_support();
  int cpus = gpus ? kGpuCpus : kCpuCpus;
  if (command.cpus) {
    cpus = std::max(1, *command.cpus / tasks);
  } else if (config.data.workers) {
    cpus = 1 + static_cast<int>(*config.data.workers);
  }
  const auto& limit = config.training.max_time;
  return batch_script(
      {.command = start.command,
       .directory = std::filesystem::current_path(),
       .job_name = config.run.name,
       .runs = std::filesystem::path(config.run.output) / config.run.name,
       .tasks_per_node = tasks,
       .cpus_per_task = cpus,
       .gpus = gpus,
       .max_time = limit && !limit->automatic ? std::optional(limit->duration) : std::nullopt});
}

void check_memory(const Config& config, int processes, bool on_gpus, const Catalogs& catalogs) {
  const std::int64_t model = on_gpus ? 0 : model_memory(config, catalogs).total();
  const std::string warning = check_host_memory(processes, model, host_memory());
  if (!warning.empty()) {
    log_warning(warning);
  }
}

void log_notices(const LoadedConfig& loaded) {
  for (const std::string& notice : loaded.notices) {
    log_warning(notice);
  }
}

// Before any rank starts: finds what can be found, and makes the run's directory.
std::filesystem::path prepare(const TrainingRun& run, int world_size, bool gpus,
                              const Catalogs& catalogs, std::optional<RunDirectoryLock>& lock) {
  log_notices(run.loaded);
  const Config& config = run.loaded.config;
  check_memory(config, world_size, gpus, catalogs);
  check_training_inputs(run, world_size, catalogs);
  const std::filesystem::path directory = choose_run_directory({.directory = run.run_directory,
                                                                .output = config.run.output,
                                                                .name = config.run.name,
                                                                .job = slurm_job()});
  lock.emplace(directory);
  return directory;
}

}  // namespace

int run_train_command(const TrainCommand& command, const Catalogs& catalogs) {
  TrainingRun run;
  run.loaded = load(command, catalogs);
  if (command.print_config || command.dry_run) {
    log_notices(run.loaded);
  }
  if (command.print_config) {
    std::cout << print_config(run.loaded);
    return 0;
  }
  StartOptions start = command.start;
  start.uses_gpus = run.loaded.config.distributed.backend != "gloo";
  if (command.print_sbatch) {
    std::cout << script(command, start, run.loaded.config);
    return 0;
  }
  if (command.dry_run) {
    // What would refuse to start is refused here, too.
    static_cast<void>(detect_environment(parse_launcher_choice(start.launcher),
                                         environment_variables(), start.command));
    std::cout << dry_run_text(run.loaded, start, catalogs)
              << resume_text(parse_resume_policy(command.resume), command.run_directory);
    return 0;
  }
  run.run_directory = command.run_directory;
  run.resume = parse_resume_policy(command.resume);
  run.allowed_changes = command.allowed_changes;
  check_allowed_changes(run.allowed_changes);
  run.progress = parse_progress_mode(command.progress);
  run.cpus = command.cpus;
  run.command = command.start.command;
  start.hang_timeout = hang_timeout_or_default(start, run.loaded.config);
  std::optional<RunDirectoryLock> lock;
  return start_ranks(
      start,
      [&] {
        const GpuSelection gpus = selected_gpus(start);
        return prepare(run, count_processes(start, gpus), !gpus.gpus.empty(), catalogs, lock);
      },
      [&](const RankEnvironment& environment) {
        run.environment = environment;
        if (command.on_phase) {
          run.on_phase = [&](std::string_view phase, std::uint64_t update) {
            command.on_phase(run.environment, phase, update);
          };
        }
        return run_training_rank(run, catalogs);
      });
}

}  // namespace temper
