#include "temper/apps/trainer_program.h"

#include "options.h"
#include "temper/recipe/train_command.h"

namespace temper {

int run_trainer(int argc, char** argv, const Catalogs& catalogs) {
  CLI::App app("Adversarial training of image classifiers on many GPUs");
  apps::CommonArguments common;
  TrainCommand command;
  apps::add_common_options(app, common, argc, argv);
  app.add_option("--run-dir", command.run_directory,
                 "default: the next free <run.output>/<run.name>/<NNN>")
      ->check([](const std::string& text) {
        return std::string(text.empty() ? "expected a folder, found nothing" : "");
      });
  app.add_option("--resume", command.resume, "auto, never, must or a checkpoint");
  app.add_option("--allow-change", command.allowed_changes,
                 "what a resumed run may change: data, run.seed, training.global_batch_size")
      ->allow_extra_args(false);
  app.add_option("--progress", command.progress, "auto, bar, lines or off");
  app.add_option("--max-restarts", common.start.max_restarts,
                 "restarts after a failure that can go away, from the last checkpoint");
  app.add_option("--smoke", command.smoke, "a few updates (2 unless a number follows) on all paths")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--dry-run", command.dry_run,
               "show configuration, placement and memory; start nothing");
  app.add_flag("--print-config", command.print_config, "show the resolved configuration");
  app.add_flag("--print-sbatch", command.print_sbatch,
               "print a Slurm batch script for this command");
  return apps::run_app(app, argc, argv, [&] {
    command.configs = common.configs;
    command.overrides = common.overrides;
    command.start = common.start_options();
    command.cpus = common.cpu_count();
    return run_train_command(command, catalogs);
  });
}

}  // namespace temper
