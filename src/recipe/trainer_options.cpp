#include "recipe/trainer_options.h"

#include <utility>

#include "recipe/resume.h"
#include "temper/launch/job_time.h"
#include "temper/recipe/build.h"

namespace temper {
namespace {

// Only rank 0 watches the time of a job: the ranks agree on each stop.
std::optional<std::chrono::milliseconds> time_limit(const std::optional<TimeLimit>& limit,
                                                    bool is_main_rank) {
  if (!limit || !limit->automatic) {
    return limit ? std::optional(limit->duration) : std::nullopt;
  }
  return is_main_rank ? time_left_in_job() : std::nullopt;
}

std::optional<OverfittingCheck> overfitting_check(
    const std::optional<OverfittingCheckConfig>& config) {
  if (!config) {
    return std::nullopt;
  }
  return OverfittingCheck{
      .every = config->every, .fall = config->fall, .roll_back = config->action == "roll_back"};
}

BestMetric best_metric(const BestCheckpointConfig& config) {
  using Kind = BestMetric::Kind;
  const Kind kind = config.metric == "clean_accuracy"        ? Kind::kCleanAccuracy
                    : config.metric == "clean_top5_accuracy" ? Kind::kCleanTop5Accuracy
                                                             : Kind::kRobustAccuracy;
  return {.kind = kind, .larger_is_better = config.mode == "max"};
}

}  // namespace

TrainerOptions trainer_options(const Config& config, const RunShape& shape,
                               const RankRuntime& runtime, const ResumeKey& key,
                               const DataSets& data) {
  const TrainingConfig& training = config.training;
  ValueDict extra = to_entries(key);
  ValueList classes;
  for (const std::string& name : data.train->class_names()) {
    classes.emplace_back(name);
  }
  extra["classes"] = std::move(classes);
  if (data.validation) {
    extra["validation_fingerprint"] = hash_text(data.validation->fingerprint());
  }
  return {.seed = config.run.seed,
          .shape = shape,
          .learning_rate = base_learning_rate(config, shape.global_batch_size),
          .schedule = build_schedule(config, shape),
          .gradient_clip = training.gradient_clip,
          .abort_on_nonfinite = training.on_nonfinite == "abort",
          .max_skipped = training.max_skipped,
          .max_time = time_limit(training.max_time, runtime.is_main_rank()),
          .validate_every = config.validation.every,
          .checkpoint_every = config.checkpoint.every,
          .log_every = config.logging.every,
          .compare_replicas_every = config.distributed.compare_replicas,
          .mixing = {.mixup = training.mixup,
                     .cutmix = training.cutmix,
                     .classes = config.data.classes},
          .max_bad_samples = config.data.max_bad_samples,
          .loader_cpus = runtime.cores_of_rank(),
          .classes = config.data.classes,
          .best = best_metric(config.checkpoint.best),
          .patience = config.validation.patience,
          .overfitting_check = overfitting_check(config.method.overfitting_check),
          .placement = runtime.placement(),
          .checkpoint_extra = std::move(extra)};
}

}  // namespace temper
