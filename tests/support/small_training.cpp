#include "support/small_training.h"

#include <ATen/ATen.h>

#include "support/compare.h"
#include "support/reference_nets.h"
#include "temper/attacks/apgd.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/models/architectures.h"

namespace temper::testing_support {

RandomDataset::RandomDataset(std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    labels_.push_back(static_cast<std::int64_t>(i * 7 % 10));
  }
  for (int i = 0; i < 10; ++i) {
    names_.push_back(std::to_string(i));
  }
}

StoredSample RandomDataset::read(std::size_t index, Buffer& buffer) const {
  SampleRandom random({.seed = 21, .purpose = Purpose::kMixing}, static_cast<std::uint32_t>(index));
  const std::span pixels = buffer.take(3 * 8 * 8);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double bright = static_cast<std::size_t>(labels_[index]) == i % 10 ? 0.4 : 0;
    pixels[i] = static_cast<std::uint8_t>(255 * (0.6 * random.uniform() + bright));
  }
  return ImageView{.height = 8, .width = 8, .channels = 3, .bytes = pixels};
}

std::shared_ptr<const RankReduction> reduction_of(Communicator& communicator, int layer) {
  auto reduction = std::make_shared<RankReduction>();
  reduction->rank = communicator.rank();
  reduction->world_size = communicator.world_size();
  reduction->sum = [&communicator, layer](at::Tensor& tensor) {
    const PurposeScope scope(communicator, "batch norm layer", layer);
    communicator.all_reduce_sum(tensor);
  };
  return reduction;
}

namespace {

class RecordList final : public Sink {
 public:
  void write(const TrainRecord& record) override { records.push_back(record); }
  void write(const ValidationRecord&) override {}
  void write(const Event& event) override { events.push_back(event); }
  std::vector<Event> events;
  std::vector<TrainRecord> records;
};

// Notes the samples that pass.
class OrderNotingMethod final : public TrainingMethod {
 public:
  explicit OrderNotingMethod(std::shared_ptr<TrainingMethod> inner) : inner_(std::move(inner)) {}
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    const std::int64_t* data = batch.samples.const_data_ptr<std::int64_t>();
    order.emplace_back(data, data + batch.samples.numel());
    return inner_->compute_gradients(context, batch);
  }
  void after_update(Classifier& model, const at::Tensor& skip) override {
    inner_->after_update(model, skip);
  }
  [[nodiscard]] int updates_per_batch() const override { return inner_->updates_per_batch(); }
  bool can_strengthen_attack() const override { return inner_->can_strengthen_attack(); }
  int strengthen_attack() override { return inner_->strengthen_attack(); }
  [[nodiscard]] StateDict state(const RankReduction& ranks) const override {
    return inner_->state(ranks);
  }
  void load_state(const StateDict& state) override { inner_->load_state(state); }
  std::vector<std::vector<std::int64_t>> order;

 private:
  std::shared_ptr<TrainingMethod> inner_;
};

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [name, tensor] : state) {
    copy.emplace_back(name, tensor.detach().cpu().clone());
  }
  return copy;
}

// A net of the tests or of the catalog.
std::shared_ptr<Classifier> make_net(const std::string& name) {
  if (name == "wide_cnn") {
    return built_in_architectures().make(name, {.classes = 10, .image_size = 8});
  }
  return make_reference_net(name);
}

ThreatModel threat_model_of(const SmallTraining& options) {
  return {.norm = options.norm, .epsilon = options.norm == Norm::kLinf ? 0.05 : 0.5};
}

// The attack that the method is made for.
std::shared_ptr<const Attack> make_attack(const SmallTraining& options) {
  const ThreatModel threat_model = threat_model_of(options);
  const double step_size = 0.4 * threat_model.epsilon;
  if (options.method == "apgd_at") {
    return std::make_shared<ApgdAttack>(threat_model, ApgdOptions{.steps = 2});
  }
  const bool one_step = options.method == "fgsm_rs" || options.method == "n_fgsm";
  return std::make_shared<PgdAttack>(
      threat_model, PgdOptions{.steps = one_step ? 1 : options.attack_steps,
                               .step_size = step_size,
                               .start_radius = options.method == "n_fgsm" ? 2.0 : 1.0,
                               .projects = options.method != "n_fgsm"});
}

// All parts of one run; the trainer borrows them.
class SmallRun {
 public:
  SmallRun(Communicator& communicator, const SmallTraining& options)
      : communicator_(communicator),
        options_(options),
        train_(make_dataset()),
        attack_(make_attack(options)),
        sampler_({.dataset_size = options.samples,
                  .global_batch_size = options.global_batch,
                  .accumulation = options.accumulation,
                  .rank = communicator.rank(),
                  .world_size = communicator.world_size(),
                  .seed = options.seed,
                  .extra_size = options.extra_samples,
                  .extra_fraction = options.extra_samples > 0 ? options.extra_fraction : 0}),
        loader_(*train_, Transform({RandomCrop{.size = 8, .padding = 1}, HorizontalFlip{}}),
                loading()),
        validation_loader_(validation_, Transform(), loading()),
        method_(make_method()) {
    build_model();
  }

  TrainingResult run() {
    std::optional<CheckpointDirectory> checkpoints;
    if (options_.checkpoints && communicator_.is_main_rank()) {
      checkpoints.emplace(*options_.checkpoints, 0);
    }
    Trainer trainer({.model = *model_,
                     .method = *method_,
                     .optimizer = *optimizer_,
                     .reducer = *reducer_,
                     .communicator = communicator_,
                     .sampler = sampler_,
                     .loader = loader_,
                     .sink = records_,
                     .checkpoints = checkpoints ? &*checkpoints : nullptr,
                     .average = average_ ? &*average_ : nullptr,
                     .check_overfitting = [this] { return validate(); },
                     .stop_requested = options_.stop_requested,
                     .enter_phase = options_.enter_phase},
                    trainer_options());
    if (options_.resume_from != nullptr) {
      trainer.restore(*options_.resume_from);
    }
    TrainingResult result{.stop = trainer.run()};
    result.updates = trainer.progress().update;
    result.state = copy_of(state_dict(*model_));
    result.average = average_ ? copy_of(average_->tensors()) : StateDict();
    result.optimizer = copy_of(optimizer_->state());
    result.validation = validate();
    result.events = records_.events;
    result.records = records_.records;
    result.sample_order = method_->order;
    return result;
  }

 private:
  [[nodiscard]] LoaderOptions loading() const {
    return {.threads = options_.loader_threads, .seed = options_.seed, .image_size = 8};
  }

  [[nodiscard]] std::shared_ptr<const Dataset> make_dataset() const {
    auto dataset = std::make_shared<const RandomDataset>(options_.samples + options_.extra_samples);
    return options_.wrap_dataset ? options_.wrap_dataset(dataset) : dataset;
  }

  [[nodiscard]] std::shared_ptr<OrderNotingMethod> make_method() const {
    auto method =
        built_in_methods().make(options_.method, attack_,
                                {.beta = 2,
                                 .label_smoothing = options_.label_smoothing,
                                 .start_epoch = options_.start_epoch,
                                 .epsilon_warmup = options_.epsilon_warmup,
                                 .weight_perturbation = options_.weight_perturbation,
                                 .free = {.threat_model = threat_model_of(options_),
                                          .step_size = 0.4 * threat_model_of(options_).epsilon,
                                          .replays = options_.replays},
                                 .statistics = phase_statistics(options_)});
    if (options_.wrap_method) {
      method = options_.wrap_method(method);
    }
    return std::make_shared<OrderNotingMethod>(method);
  }

  void build_model() {
    model_ = make_net(options_.net);
    initialize(*model_, options_.seed);
    model_->to(options_.placement.device, options_.placement.dtype);
    if (options_.synchronized_batch_norm) {
      int number = 0;
      for (BatchNorm* layer : model_->batch_norms()) {
        layer->synchronize(reduction_of(communicator_, number++));
      }
    }
    if (options_.average) {
      average_model_ = make_net(options_.net);
      average_model_->to(options_.placement.device, options_.placement.dtype);
      average_.emplace(state_dict(*model_), state_dict(*average_model_), *options_.average);
    }
    std::vector<NamedParameter> named;
    StateDict parameters;
    for (const auto& item : model_->named_parameters()) {
      named.push_back({.name = item.key(), .tensor = item.value()});
      parameters.emplace_back(item.key(), item.value());
    }
    optimizer_ = make_sgd(named, {.weight_decay = 5e-4});
    reducer_ = make_gradient_reducer(parameters, communicator_, {.overlap = options_.overlap});
  }

  [[nodiscard]] TrainerOptions trainer_options() const {
    TrainerOptions trainer;
    trainer.seed = options_.seed;
    const std::int64_t replays = method_->updates_per_batch();
    const auto batches = static_cast<std::int64_t>(sampler_.updates_per_epoch());
    trainer.shape = {.epochs = options_.epochs,
                     .updates_per_epoch = batches * replays,
                     .samples_per_epoch = static_cast<std::int64_t>(sampler_.samples_per_epoch()),
                     .global_batch_size = static_cast<std::int64_t>(options_.global_batch),
                     .max_updates = options_.max_updates,
                     .extra_batch_size = static_cast<std::int64_t>(sampler_.extra_per_batch()),
                     .updates_per_batch = replays};
    trainer.schedule = options_.schedule;
    trainer.abort_on_nonfinite = options_.abort_on_nonfinite;
    trainer.log_every = {1, Period::Unit::kUpdates};
    trainer.compare_replicas_every = options_.compare_replicas_every;
    trainer.mixing = {.mixup = options_.mixup, .cutmix = options_.cutmix, .classes = 10};
    trainer.classes = 10;
    trainer.overfitting_check = options_.overfitting_check;
    trainer.placement = options_.placement;
    return trainer;
  }

  EvaluationResult validate() {
    return evaluate(
        *model_, validation_loader_, {{"pgd", threat_model_of(options_), attack_}}, communicator_,
        {.dataset_size = validation_.size(), .batch_size = 7, .placement = options_.placement});
  }

  Communicator& communicator_;
  const SmallTraining& options_;
  std::shared_ptr<const Dataset> train_;
  RandomDataset validation_{29};
  std::shared_ptr<const Attack> attack_;
  ShardedSampler sampler_;
  Loader loader_;
  Loader validation_loader_;
  RecordList records_;
  std::shared_ptr<OrderNotingMethod> method_;
  std::shared_ptr<Classifier> model_;
  std::shared_ptr<Classifier> average_model_;
  std::optional<WeightAverage> average_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientReducer> reducer_;
};

}  // namespace

PhaseStatistics phase_statistics(const SmallTraining& options) {
  const bool has_clean_forward = options.method == "standard" || options.method == "trades" ||
                                 options.method == "mixed" || options.method == "mart";
  const StatisticsMode adversarial =
      has_clean_forward ? StatisticsMode::kBatch : StatisticsMode::kUpdate;
  return {.attack = options.attack_statistics,
          .clean_forward = options.clean_statistics,
          .adversarial_forward = options.adversarial_statistics.value_or(adversarial)};
}

TrainingResult run_small_training(Communicator& communicator, const SmallTraining& options) {
  return SmallRun(communicator, options).run();
}

void require_equal_states(const StateDict& actual, const StateDict& expected, double tolerance) {
  require(actual.size() == expected.size(), "the states have ", actual.size(), " and ",
          expected.size(), " tensors");
  for (std::size_t i = 0; i < actual.size(); ++i) {
    require(actual[i].first == expected[i].first, actual[i].first, " instead of ",
            expected[i].first);
    const std::string problem = difference(actual[i].second, expected[i].second, tolerance);
    require(problem.empty(), actual[i].first, ": ", problem);
  }
}

}  // namespace temper::testing_support
