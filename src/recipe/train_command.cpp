#include "temper/recipe/train_command.h"

#include <iostream>
#include <optional>

#include "recipe/resume_rules.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/launch/run_directory.h"
#include "temper/recipe/load_config.h"
#include "temper/recipe/training_run.h"

namespace temper {
namespace {

LoadedConfig load(const TrainCommand& command) {
  std::vector<std::string> overrides;
  if (command.smoke > 0) {  // a few updates, one short validation, everything written
    overrides.emplace_back("validation.samples=64");  // unless the user wants more
  }
  overrides.insert(overrides.end(), command.overrides.begin(), command.overrides.end());
  if (command.smoke > 0) {
    overrides.push_back(concat("training.max_updates=", command.smoke));
  }
  return load_config(command.configs, overrides);
}

// Before any rank starts: finds what can be found, and makes the run's directory.
std::filesystem::path prepare(const TrainingRun& run, int world_size, const Catalogs& catalogs,
                              std::optional<RunDirectoryLock>& lock) {
  for (const std::string& notice : run.loaded.notices) {
    log_warning(notice);
  }
  const Config& config = run.loaded.config;
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
  run.loaded = load(command);
  if (command.print_config) {
    std::cout << print_config(run.loaded);
    return 0;
  }
  StartOptions start = command.start;
  start.uses_gpus = run.loaded.config.distributed.backend != "gloo";
  if (command.dry_run) {
    std::cout << dry_run_text(run.loaded, start);
    return 0;
  }
  run.run_directory = command.run_directory;
  run.resume = parse_resume_policy(command.resume);
  run.allowed_changes = command.allowed_changes;
  check_allowed_changes(run.allowed_changes);
  run.progress = parse_progress_mode(command.progress);
  run.cpus = command.cpus;
  run.command = command.start.command;
  std::optional<RunDirectoryLock> lock;
  return start_ranks(
      start,
      [&] { return prepare(run, count_processes(start, selected_gpus(start)), catalogs, lock); },
      [&](const RankEnvironment& environment) {
        run.environment = environment;
        return run_training_rank(run, catalogs);
      });
}

}  // namespace temper
