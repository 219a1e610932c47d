// Clean and robust accuracy of a checkpoint or a PyTorch state dict, exact over any number of
// processes.

#include "options.h"
#include "temper/recipe/evaluation_run.h"
#include "temper/recipe/load_config.h"

namespace {

int run(const temper::apps::CommonArguments& common, temper::EvaluationRun evaluation) {
  std::vector<std::string> overrides = common.overrides;
  overrides.emplace_back("validation.every=0ep");  // an evaluation may have test data alone
  evaluation.loaded = temper::load_config(common.configs, overrides);
  evaluation.cpus = common.cpu_count();
  const auto no_directory = [&] {
    temper::check_evaluation_inputs(evaluation);
    return std::filesystem::path();
  };
  return temper::start_ranks(common.start_options(), no_directory,
                             [&](const temper::RankEnvironment& environment) {
                               evaluation.environment = environment;
                               return temper::run_evaluation_rank(evaluation);
                             });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Clean and robust accuracy of a checkpoint");
  temper::apps::CommonArguments common;
  temper::EvaluationRun evaluation;
  temper::apps::add_common_options(app, common, argc, argv);
  app.add_option("--checkpoint", evaluation.checkpoint, "Temper checkpoint or PyTorch state dict")
      ->required();
  app.add_option("--attack", evaluation.attacks, "fgsm, pgd, or none; default: validation.attack")
      ->allow_extra_args(false);
  app.add_option("--split", evaluation.split,
                 "train, validation or test; default: test if it is set");
  app.add_flag("--json", evaluation.json, "print one JSON object");
  return temper::apps::run_app(app, argc, argv, [&] { return run(common, evaluation); });
}
