#include "recipe/training_inputs.h"

#include "recipe/resume.h"
#include "recipe/training_data.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"
#include "temper/models/model_state.h"

namespace temper {

ResumeKey resume_key(const TrainingRun& run, const DataSets& data, int world_size) {
  const Config& config = run.loaded.config;
  return {.data_fingerprint = fingerprint(data),
          .seed = static_cast<std::int64_t>(config.run.seed),
          .global_batch_size = global_batch_size(config, world_size),
          .config = print_config(run.loaded, /*with_comments=*/false)};
}

// The forward for logging comes after the collective that averages local statistics.
void require_one_process_for_reference(const Config& config, int world_size) {
  if (config.method.reference_order && config.method.name == "pgd_at" && world_size > 1) {
    throw ConfigError(concat("method.reference_order of pgd_at is for one process, not for ",
                             world_size, "; set it to false"));
  }
}

namespace {

// Whether model and optimizer can take up the checkpoint's state, found here once instead of in
// each rank.
void check_state(const ChosenCheckpoint& chosen, const Config& config, Classifier& model) {
  const ValueDict& saved = chosen.checkpoint.as_dict();
  load_state_dict(model, to_state_dict(saved.at("model").as_dict()), chosen.path);
  if (config.training.weight_average && !saved.at("average").is_null()) {
    load_state_dict(model, to_state_dict(saved.at("average").as_dict()),
                    concat(chosen.path, ": average"));
  }
  try {
    build_optimizer(config, model)->load_state(to_state_dict(saved.at("optimizer").as_dict()));
  } catch (const ConfigError& error) {
    throw ConfigError(concat(chosen.path, ": ", error.what()));
  }
}

// Images of another size than the model's, as far as one image shows.
void check_image_size(const Dataset& dataset, std::size_t index, bool training,
                      const Config& config, std::string_view key) {
  const Transform transform = build_transform(config, training);
  SampleRandom random({.seed = config.run.seed, .purpose = Purpose::kAugmentation}, 0);
  Image image;
  try {
    image = dataset.load(index);
  } catch (const DataError&) {
    return;  // data.on_bad_sample says what becomes of it, once training meets it
  }
  try {
    image = transform.apply(std::move(image), random);
  } catch (const DataError& error) {
    throw ConfigError(concat(key, ": ", dataset.sample_name(index), ": ", error.what()));
  }
  const std::int64_t side = config.data.image_size;
  if (image.height != side || image.width != side) {
    throw ConfigError(concat(key, ": ", dataset.sample_name(index), " is ", image.height, " x ",
                             image.width, " after data.transform.",
                             training ? "train" : "evaluation", ", but data.image_size is ", side,
                             "; set data.image_size, or add steps that give this size, such as "
                             "resize and center_crop"));
  }
}

}  // namespace

void check_image_sizes(const DataSets& data, const Config& config) {
  check_image_size(*data.train, 0, true, config, "data.train");
  if (data.train->size() > data.own_size) {
    check_image_size(*data.train, data.own_size, true, config, "data.extra");
  }
  if (data.validation) {
    check_image_size(*data.validation, 0, false, config, "data.validation");
  }
}

void check_training_inputs(const TrainingRun& run, int world_size, const Catalogs& catalogs) {
  const Config& config = run.loaded.config;
  require_one_process_for_reference(config, world_size);
  const DataSets data = open_data_sets(config);
  static_cast<void>(ShardedSampler(sampler_options(config, data, 0, world_size)));
  const auto model = build_architecture(config, catalogs);
  if (config.model.initial_weights) {
    load_initial_weights(*model, config.model);
  }
  check_image_sizes(data, config);
  const bool named = run.resume.kind == ResumePolicy::Kind::kFile || !run.run_directory.empty();
  if (!named && run.resume.kind == ResumePolicy::Kind::kMust) {
    throw ConfigError("--resume must needs the run's folder: give --run-dir");
  }
  const ResumePolicy policy =
      policy_of_attempt(run.resume, run.run_directory, {.job = slurm_job()}, slurm_requeues());
  const std::filesystem::path folder = run.run_directory / "checkpoints";
  if (const auto chosen = named ? choose_checkpoint(policy, folder) : std::nullopt) {
    check_resume(chosen->path, chosen->checkpoint, resume_key(run, data, world_size),
                 run.allowed_changes);
    check_state(*chosen, config, *model);
  }
}

}  // namespace temper
