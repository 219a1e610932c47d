// Trains a classifier; starts one process a GPU unless a launcher started this one.

#include <iostream>

#include "options.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/launch/run_directory.h"
#include "temper/recipe/load_config.h"
#include "temper/recipe/training_run.h"

namespace {

struct Arguments {
  temper::apps::CommonArguments common;
  std::string run_directory;
  std::string resume = "auto";
  std::string progress = "auto";
  int smoke = 0;
  bool dry_run = false;
  bool print_config = false;
};

temper::LoadedConfig load(const Arguments& arguments) {
  std::vector<std::string> overrides = arguments.common.overrides;
  if (arguments.smoke > 0) {  // a few updates, one short validation, everything written
    overrides.push_back(temper::concat("training.max_updates=", arguments.smoke));
    overrides.emplace_back("validation.samples=64");
  }
  return temper::load_config(arguments.common.configs, overrides);
}

int run(const Arguments& arguments) {
  const temper::LoadedConfig loaded = load(arguments);
  if (arguments.print_config) {
    std::cout << temper::print_config(loaded);
    return 0;
  }
  const temper::StartOptions start = arguments.common.start_options();
  if (arguments.dry_run) {
    std::cout << temper::dry_run_text(loaded, temper::count_processes(start.processes));
    return 0;
  }
  temper::TrainingRun training;
  training.loaded = loaded;
  training.run_directory = arguments.run_directory;
  training.resume = temper::parse_resume_policy(arguments.resume);
  training.progress = temper::parse_progress_mode(arguments.progress);
  training.cpus = arguments.common.cpu_count();
  training.command = start.command;
  const auto prepare = [&] {
    for (const std::string& notice : loaded.notices) {
      temper::log_warning(notice);
    }
    temper::check_training_inputs(loaded.config);
    return temper::choose_run_directory({.directory = arguments.run_directory,
                                         .output = loaded.config.run.output,
                                         .name = loaded.config.run.name});
  };
  return temper::start_ranks(start, prepare, [&](const temper::RankEnvironment& environment) {
    training.environment = environment;
    return temper::run_training_rank(training);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Adversarial training of image classifiers on many GPUs");
  Arguments arguments;
  temper::apps::add_common_options(app, arguments.common, argc, argv);
  app.add_option("--run-dir", arguments.run_directory,
                 "default: the next free <run.output>/<run.name>/<NNN>");
  app.add_option("--resume", arguments.resume, "auto, never, must or a checkpoint");
  app.add_option("--progress", arguments.progress, "auto, bar, lines or off");
  app.add_option("--max-restarts", arguments.common.start.max_restarts,
                 "restarts after a failure; 0 for now");
  app.add_option("--smoke", arguments.smoke,
                 "a few updates (2 unless a number follows) on all paths")
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--dry-run", arguments.dry_run,
               "show configuration, placement and memory; start nothing");
  app.add_flag("--print-config", arguments.print_config, "show the resolved configuration");
  return temper::apps::run_app(app, argc, argv, [&] { return run(arguments); });
}
