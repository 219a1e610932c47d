#include "temper/recipe/evaluation_run.h"

#include <ATen/ATen.h>

#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "recipe/data_sets.h"
#include "recipe/rank_runtime.h"
#include "recipe/resume_rules.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

constexpr std::uint64_t kDefaultBatch = 250;

std::string split_name(const EvaluationRun& run) {
  return !run.split.empty() ? run.split : (run.loaded.config.data.test ? "test" : "validation");
}

std::shared_ptr<const Dataset> open_split(const EvaluationRun& run) {
  return open_split(run.loaded.config, split_name(run));
}

// Another seed, split or data set would choose samples that the network was trained on.
void check_held_out(const EvaluationRun& run, const Dataset& dataset) {
  if (run.loaded.config.data.validation_split == 0 || split_name(run) != "validation") {
    return;
  }
  const WeightFile trained = read_weight_file(run.checkpoint, run.weights);
  if (trained.config.empty()) {
    return;
  }
  for (const ConfigChange& change :
       config_changes(trained.config, print_config(run.loaded, false))) {
    if (change.key == "run.seed" || change.key == "data.validation_split") {
      throw ConfigError(concat(run.checkpoint, " was trained with ", change.key, " ",
                               change.before.empty() ? "not set" : change.before, ", not ",
                               change.now,
                               ": the held-out part is another one, and this network was trained "
                               "on samples of it; set ",
                               change.key, " as for the training"));
    }
  }
  const std::string now = hash_text(dataset.fingerprint());
  if (!trained.validation_fingerprint.empty() && trained.validation_fingerprint != now) {
    throw ConfigError(concat(run.checkpoint,
                             " was trained beside a held-out part with the index "
                             "hash ",
                             trained.validation_fingerprint, ", this one has ", now,
                             ": the held-out part is another one, and this network may have been "
                             "trained on samples of it; set data.train as for the training"));
  }
}

// The attacks by name, with the parameters of validation.attack.
std::vector<NamedAttack> choose_attacks(const EvaluationRun& run, const Catalogs& catalogs) {
  const Config& config = run.loaded.config;
  std::vector<NamedAttack> attacks;
  AttackConfig settings = config.validation.attack.value_or(AttackConfig{.steps = 20});
  if (run.attacks.empty() && config.validation.attack) {
    attacks.push_back(build_attack(config, settings, catalogs));
  }
  for (const std::string& name : run.attacks) {
    if (name != "none") {
      settings.name = name;
      if (name == "apgd" && config.threat_model.norm == "l1") {
        throw ConfigError("--attack apgd is there for linf and l2; use pgd for l1");
      }
      attacks.push_back(build_attack(config, settings, catalogs));
    }
  }
  return attacks;
}

const char* norm_name(Norm norm) {
  return norm == Norm::kLinf ? "linf" : norm == Norm::kL2 ? "l2" : "l1";
}

nlohmann::ordered_json interval_json(std::int64_t correct, std::int64_t samples) {
  const ShareInterval interval = share_interval(correct, samples);
  return {interval.low, interval.high};
}

void print_json(const EvaluationResult& result) {
  nlohmann::ordered_json document;
  document["samples"] = result.samples;
  document["clean_correct"] = result.clean_correct;
  document["clean_accuracy"] = result.accuracy(result.clean_correct);
  document["clean_interval"] = interval_json(result.clean_correct, result.samples);
  document["attacks"] = nlohmann::json::array();
  for (const AttackResult& item : result.attacks) {
    const NamedAttack& attack = item.attack;
    document["attacks"].push_back(
        {{"name", attack.name},
         {"norm", norm_name(attack.threat_model.norm)},
         {"epsilon", attack.threat_model.epsilon},
         {"steps", attack.steps},
         {"restarts", attack.restarts},
         {"settings", attack.settings},
         {"robust_correct", item.robust_correct},
         {"robust_accuracy", result.accuracy(item.robust_correct)},
         {"robust_interval", interval_json(item.robust_correct, result.samples)},
         {"zero_gradient_samples", item.zero_gradients},
         {"nonfinite_gradient_samples", item.nonfinite_gradients},
         {"seconds", item.seconds}});
  }
  std::cout << document.dump() << std::endl;
}

void print_table(const EvaluationResult& result) {
  const auto line = [&](const std::string& name, std::int64_t correct,
                        const std::string& settings) {
    const ShareInterval interval = share_interval(correct, result.samples);
    std::cout << std::left << std::setw(16) << name << std::right << std::setw(8) << correct
              << " of " << result.samples << std::setw(9)
              << fixed(100 * result.accuracy(correct), 2) << " %  (" << fixed(100 * interval.low, 1)
              << " to " << fixed(100 * interval.high, 1) << " %)" << (settings.empty() ? "" : "  ")
              << settings << '\n';
  };
  line("clean", result.clean_correct, "in brackets: 95 % interval");
  for (const AttackResult& item : result.attacks) {
    line(item.attack.name, item.robust_correct, item.attack.settings);
  }
  std::cout << std::flush;
}

// An attack that cannot move says nothing about robustness.
void warn_of_gradients(const EvaluationResult& result) {
  constexpr double kMany = 0.1;
  for (const AttackResult& item : result.attacks) {
    const auto attacked = static_cast<double>(result.clean_correct);
    if (static_cast<double>(item.zero_gradients) > kMany * attacked) {
      log_warning(item.attack.name, " met a zero gradient at ", item.zero_gradients, " of ",
                  result.clean_correct,
                  " images and could not move them: the robust accuracy may be overstated "
                  "(gradient masking)");
    }
    if (item.nonfinite_gradients > 0) {
      log_warning(item.attack.name, " met a gradient that is not finite at ",
                  item.nonfinite_gradients, " images and left them where they were");
    }
  }
}

int evaluate_rank(const EvaluationRun& run, const Catalogs& catalogs, RankRuntime& runtime) {
  const Config& config = run.loaded.config;
  const std::vector<NamedAttack> attacks = choose_attacks(run, catalogs);
  runtime.open_store();
  runtime.heartbeat().set_phase("open data");
  const auto dataset = open_split(run);
  runtime.connect();
  runtime.heartbeat().set_phase("build model");
  const auto model = build_architecture(config, catalogs);
  load_weights(*model, run.checkpoint, run.weights);
  model->to(runtime.placement().device, runtime.placement().dtype);
  LoaderOptions options = loader_options(config, false);
  options.threads = runtime.threads().loader;
  options.memory_limit = config.data.memory_limit.bytes;
  options.allocate = batch_allocator(runtime.placement());
  Loader loader(*dataset, build_transform(config, false), options);
  const auto watch = runtime.watch_loaders({&loader});
  runtime.heartbeat().set_phase("evaluation");
  const EvaluationResult result = evaluate(
      *model, loader, attacks, runtime.communicator(),
      {.dataset_size = dataset->size(),
       .samples = static_cast<std::uint64_t>(config.validation.samples.value_or(0)),
       .batch_size =
           static_cast<std::uint64_t>(config.validation.batch_size.value_or(kDefaultBatch)),
       .max_bad_samples = config.data.max_bad_samples,
       .seed = config.run.seed,
       .placement = runtime.placement(),
       .stop_requested = [&] { return runtime.stop_requested() != StopRequest::kNone; },
       .on_batch = [&] { runtime.heartbeat().touch(); }});
  if (!result.complete) {
    return runtime.stop_requested() == StopRequest::kInterrupt ? 130 : 143;
  }
  if (runtime.is_main_rank()) {
    run.json ? print_json(result) : print_table(result);
    warn_of_gradients(result);
  }
  return 0;
}

}  // namespace

void check_evaluation_inputs(const EvaluationRun& run, const Catalogs& catalogs) {
  const Config& config = run.loaded.config;
  static_cast<void>(choose_attacks(run, catalogs));
  const auto dataset = open_split(run);
  const std::string line =
      load_weights(*build_architecture(config, catalogs), run.checkpoint, run.weights);
  if (!line.empty()) {
    log_info(line);
  }
  check_held_out(run, *dataset);
}

int run_evaluation_rank(const EvaluationRun& run, const Catalogs& catalogs) {
  RankRuntime runtime(run.environment, run.loaded.config, run.cpus);
  return guard_rank(runtime, [&] { return evaluate_rank(run, catalogs, runtime); });
}

}  // namespace temper
