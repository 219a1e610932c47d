// Clean and robust accuracy of a checkpoint or a PyTorch state dict, exact over any number of
// processes; or its bare weights for other programs.

#include <iostream>

#include "options.h"
#include "temper/core/error.h"
#include "temper/recipe/evaluation_run.h"
#include "temper/recipe/export_weights.h"
#include "temper/recipe/load_config.h"

namespace {

int run(const temper::apps::CommonArguments& common, temper::EvaluationRun evaluation) {
  if (common.configs.empty()) {
    throw temper::ConfigError("--config is missing; only --export does without");
  }
  std::vector<std::string> overrides = common.overrides;
  overrides.emplace_back("validation.every=0ep");  // an evaluation may have test data alone
  overrides.emplace_back("checkpoint.best.metric=clean_accuracy");  // or no attack
  evaluation.loaded = temper::load_config(common.configs, overrides);
  evaluation.cpus = common.cpu_count();
  const auto no_directory = [&] {
    temper::check_evaluation_inputs(evaluation);
    return std::filesystem::path();
  };
  temper::StartOptions start = common.start_options();
  start.uses_gpus = evaluation.loaded.config.distributed.backend != "gloo";
  start.hang_timeout = temper::hang_timeout_or_default(start, evaluation.loaded.config);
  return temper::start_ranks(start, no_directory, [&](const temper::RankEnvironment& environment) {
    evaluation.environment = environment;
    return temper::run_evaluation_rank(evaluation);
  });
}

int export_weights(const temper::apps::CommonArguments& common,
                   const temper::EvaluationRun& evaluation, const std::string& target) {
  if (!common.configs.empty() || !common.overrides.empty() || !evaluation.attacks.empty() ||
      !evaluation.split.empty()) {
    throw temper::ConfigError(
        "--export evaluates nothing: it takes --checkpoint, --average, --json");
  }
  std::cout << temper::export_weights({.checkpoint = evaluation.checkpoint,
                                       .target = target,
                                       .weights = evaluation.weights,
                                       .json = evaluation.json})
            << std::flush;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Clean and robust accuracy of a checkpoint, or its weights for PyTorch");
  temper::apps::CommonArguments common;
  temper::EvaluationRun evaluation;
  std::string target;
  bool average = false;
  temper::apps::add_common_options(app, common, argc, argv);
  app.get_option("--config")->required(false);
  app.add_option("--checkpoint", evaluation.checkpoint,
                 "Temper checkpoint, PyTorch state dict or safetensors")
      ->required();
  app.add_option(
      "--export", target,
      "write the bare weights to this .pt, .pth or .safetensors file; no --config needed");
  app.add_flag("--average", average, "take the checkpoint's weight average");
  app.add_option("--attack", evaluation.attacks,
                 "fgsm, pgd, apgd, or none; default: validation.attack")
      ->allow_extra_args(false);
  app.add_option("--split", evaluation.split,
                 "train, validation or test; default: test if it is set");
  app.add_flag("--json", evaluation.json, "print one JSON object");
  return temper::apps::run_app(app, argc, argv, [&] {
    evaluation.weights = average ? temper::WeightSet::kAverage : temper::WeightSet::kModel;
    return target.empty() ? run(common, evaluation) : export_weights(common, evaluation, target);
  });
}
