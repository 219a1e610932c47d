#include "recipe/training_data.h"

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/text.h"
#include "temper/recipe/build.h"

namespace temper {

SamplerOptions sampler_options(const Config& config, const DataSets& sets, int rank,
                               int world_size) {
  return {.dataset_size = sets.own_size,
          .global_batch_size = static_cast<std::uint64_t>(global_batch_size(config, world_size)),
          .accumulation = static_cast<std::uint64_t>(config.training.accumulation),
          .rank = rank,
          .world_size = world_size,
          .seed = config.run.seed,
          .drop_last = config.data.last_batch == "drop",
          .extra_size = sets.train->size() - sets.own_size,
          .extra_fraction = sets.extra_fraction};
}

TrainingData::TrainingData(const Config& config, RankRuntime& runtime)
    : config_(config), runtime_(runtime), sets_(open_data_sets(config)) {}

std::unique_ptr<Loader> TrainingData::make_loader(const Dataset& dataset, bool training) const {
  LoaderOptions options = loader_options(config_, training);
  if (!training && sets_.overfitting != nullptr && has_validation()) {
    options.memory_limit /= 2;  // two of them share it
  }
  options.threads = runtime_.threads().loader;
  options.allocate = batch_allocator(runtime_.placement());
  return std::make_unique<Loader>(dataset, build_transform(config_, training), options);
}

// Pixels that a data set keeps for its whole life are no part of the limit, which holds for what
// loaders take beside them.
void TrainingData::warn_of_held_memory() const {
  const bool shared = config_.data.validation_split > 0 || !has_validation();
  const std::uint64_t held =
      sets_.train->held_bytes() + (shared ? 0 : sets_.validation->held_bytes());
  if (held > config_.data.memory_limit.bytes) {
    log_warning("the data sets keep ", held >> 20,
                " MiB of pixels in memory, more than data.memory_limit, which holds for the "
                "loaders alone; a pack or an uncompressed npz is read in place");
  }
}

void TrainingData::build_loaders() {
  warn_of_held_memory();
  const RankEnvironment& environment = runtime_.environment();
  sampler_ = std::make_unique<ShardedSampler>(
      sampler_options(config_, sets_, environment.rank, environment.world_size));
  train_loader_ = make_loader(*sets_.train, true);
  if (has_validation()) {
    validation_loader_ = make_loader(*sets_.validation, false);
  }
  if (sets_.overfitting != nullptr) {
    check_loader_ = make_loader(*sets_.overfitting, false);
  }
}

std::vector<Loader*> TrainingData::loaders() const {
  std::vector<Loader*> all;
  for (const auto* loader : {&train_loader_, &validation_loader_, &check_loader_}) {
    if (*loader != nullptr) {
      all.push_back(loader->get());
    }
  }
  return all;
}

EvaluationResult TrainingData::evaluate_on(const Dataset& dataset, Loader& loader,
                                           Classifier& model,
                                           const std::vector<NamedAttack>& attacks,
                                           std::uint64_t samples) {
  constexpr std::uint64_t kDefaultBatch = 250;
  return evaluate(
      model, loader, attacks, runtime_.communicator(),
      {.dataset_size = dataset.size(),
       .samples = samples,
       .batch_size =
           static_cast<std::uint64_t>(config_.validation.batch_size.value_or(kDefaultBatch)),
       .max_bad_samples = config_.data.max_bad_samples,
       .seed = config_.run.seed,
       .placement = runtime_.placement(),
       .stop_requested = [this] { return runtime_.stop_requested() != StopRequest::kNone; },
       .on_batch = [this] { runtime_.heartbeat().touch(); }});
}

EvaluationResult TrainingData::validate(Classifier& model,
                                        const std::vector<NamedAttack>& attacks) {
  return evaluate_on(*sets_.validation, *validation_loader_, model, attacks,
                     static_cast<std::uint64_t>(config_.validation.samples.value_or(0)));
}

EvaluationResult TrainingData::check_overfitting(Classifier& model, const NamedAttack& attack) {
  return evaluate_on(*sets_.overfitting, *check_loader_, model, {attack}, 0);
}

std::string TrainingData::describe() const {
  std::string text = concat(sets_.own_size, " training samples");
  if (config_.data.extra) {
    text += concat(" and ", sets_.train->size() - sets_.own_size, " extra ones",
                   config_.data.extra->unlabelled ? " without labels" : "", ", ",
                   sampler_->own_per_batch(), " + ", sampler_->extra_per_batch(), " a batch");
  }
  if (has_validation()) {
    text += concat("; ", sets_.validation->size(), " validation samples",
                   config_.data.validation_split > 0 ? ", held out of the training data" : "");
  }
  return text;
}

}  // namespace temper
