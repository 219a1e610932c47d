#include "temper/recipe/training_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "recipe/examples.h"
#include "recipe/rank_directory.h"
#include "recipe/rank_runtime.h"
#include "recipe/resume.h"
#include "recipe/run_end.h"
#include "recipe/run_files.h"
#include "recipe/stop_reasons.h"
#include "recipe/trainer_options.h"
#include "recipe/training_data.h"
#include "recipe/training_inputs.h"
#include "temper/checkpoint/directory.h"
#include "temper/checkpoint/space.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/disk.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/metrics/metrics_log.h"
#include "temper/models/model_state.h"

namespace temper {
namespace {

constexpr std::uint64_t kReportExamples = 8;

// One rank's objects, built in the start-up order of a rank.
class TrainingRank {
 public:
  TrainingRank(const TrainingRun& run, const Catalogs& catalogs, RankRuntime& runtime)
      : run_(run), config_(run.loaded.config), catalogs_(catalogs), runtime_(runtime) {}

  int work();

 private:
  void take_up_named_file();
  void build_attacks();
  void build_method_and_shape();
  void announce() const;
  void build_training();
  void warn_of_missing_space() const;
  void open_run_files(std::int64_t resumed_update, std::int64_t saved_update);
  [[nodiscard]] StopReason train();
  [[nodiscard]] TrainerParts trainer_parts();
  EvaluationResult validate();
  void report_end(const Trainer& trainer, StopReason reason);
  // The weight average if there is one.
  [[nodiscard]] Classifier& evaluated_model() { return average_model_ ? *average_model_ : *model_; }

  [[nodiscard]] bool is_main_rank() const { return runtime_.is_main_rank(); }
  [[nodiscard]] int world_size() const { return runtime_.environment().world_size; }
  [[nodiscard]] std::filesystem::path checkpoint_folder() const {
    return directory_->path() / "checkpoints";
  }

  const TrainingRun& run_;
  const Config& config_;
  const Catalogs& catalogs_;
  RankRuntime& runtime_;
  std::optional<TrainingData> data_;
  ResumeKey resume_key_;
  std::optional<RankDirectory> directory_;
  ResumePolicy policy_;
  std::shared_ptr<Classifier> model_;
  std::string weights_line_;  // where the weights came from; empty: drawn
  RunShape shape_;
  std::unique_ptr<LoaderWatch> loader_watch_;
  std::optional<NamedAttack> validation_attack_;
  std::optional<NamedAttack> overfitting_attack_;
  std::optional<Value> checkpoint_;
  std::shared_ptr<TrainingMethod> method_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientReducer> reducer_;
  std::shared_ptr<Classifier> average_model_;  // null: no average
  std::optional<WeightAverage> average_;
  SinkList sinks_;  // filled on the main rank; other ranks write nothing
  std::optional<CheckpointDirectory> checkpoints_;
};

int TrainingRank::work() {
  runtime_.open_store();
  runtime_.heartbeat().set_phase("open data");
  data_.emplace(config_, runtime_);
  if (runtime_.environment().launcher != LauncherKind::kSpawn) {  // which did so before the start
    check_image_sizes(data_->sets(), config_);
  }
  runtime_.connect();
  directory_.emplace(runtime_, config_, run_.run_directory);
  require_one_process_for_reference(config_, world_size());
  resume_key_ = resume_key(run_, data_->sets(), world_size());
  resume_key_.compute_threads = runtime_.threads().compute;
  require_same_data(runtime_.communicator(), config_, resume_key_.data_fingerprint);
  data_->build_loaders();
  build_method_and_shape();
  build_attacks();
  runtime_.heartbeat().set_phase("read checkpoint");
  policy_ = policy_of_attempt(run_.resume, directory_->path(), launch_identity(runtime_),
                              slurm_requeues());
  checkpoint_ = find_checkpoint(policy_, checkpoint_folder(), runtime_.communicator(), resume_key_,
                                run_.allowed_changes);
  runtime_.set_compute_threads(static_cast<int>(resume_key_.compute_threads));
  runtime_.heartbeat().set_phase("build model");
  build_training();
  return exit_status(train());
}

// A method may make several updates of one batch.
void TrainingRank::build_method_and_shape() {
  const auto batches = static_cast<std::int64_t>(data_->sampler().updates_per_epoch());
  const std::int64_t replays = config_.method.name == "free" ? config_.method.replays : 1;
  shape_ = {.epochs = config_.training.epochs,
            .updates_per_epoch = batches * replays,
            .samples_per_epoch = static_cast<std::int64_t>(data_->sampler().samples_per_epoch()),
            .global_batch_size = global_batch_size(config_, world_size()),
            .max_updates = config_.training.max_updates.value_or(0),
            .extra_batch_size = static_cast<std::int64_t>(data_->sampler().extra_per_batch())};
  method_ = build_method(config_, catalogs_, shape_);
  shape_.updates_per_batch = method_->updates_per_batch();
  shape_.updates_per_epoch = batches * shape_.updates_per_batch;
}

void TrainingRank::build_attacks() {
  if (config_.validation.attack) {
    validation_attack_ = build_attack(config_, *config_.validation.attack, catalogs_);
  }
  if (config_.method.overfitting_check) {
    overfitting_attack_ = overfitting_attack(config_, catalogs_);
  }
}

void TrainingRank::announce() const {
  const std::int64_t global_batch = global_batch_size(config_, world_size());
  const double rate = base_learning_rate(config_, global_batch);
  log_info("run directory ", directory_->path().string());
  log_info("data: ", data_->describe());
  log_info("batch: ", global_batch, " samples an update over ", world_size(), " processes, in ",
           config_.training.accumulation,
           config_.training.accumulation == 1 ? " micro-batch; " : " micro-batches; ",
           shape_.updates_per_epoch, " updates an epoch");
  log_info("learning rate ", rate,
           rate == config_.optimizer.learning_rate ? ", not scaled"
                                                   : ", scaled by schedule.reference_batch");
  if (config_.model.batch_norm == "local" && world_size() > 1) {
    log_info("batch norm is local: each rank normalises by its own part of the batch");
  }
  log_info("threads a process: ", runtime_.threads().compute, " compute, ",
           runtime_.threads().loader, " loader; device ", runtime_.placement().device.str());
}

EvaluationResult TrainingRank::validate() {
  std::vector<NamedAttack> attacks;
  if (validation_attack_) {
    attacks.push_back(*validation_attack_);
  }
  return data_->validate(evaluated_model(), attacks);
}

void TrainingRank::build_training() {
  model_ = build_model(config_, catalogs_, runtime_.placement(), &weights_line_);
  if (config_.model.batch_norm == "sync") {
    runtime_.synchronize_batch_norm(*model_);
  }
  broadcast_tensors(model_->parameters(), runtime_.communicator());
  broadcast_tensors(model_->buffers(), runtime_.communicator());
  optimizer_ = build_optimizer(config_, *model_);
  if (const auto& average = config_.training.weight_average) {
    average_model_ = build_average_model(config_, catalogs_, runtime_.placement());
    average_.emplace(state_dict(*model_), state_dict(*average_model_),
                     WeightAverageOptions{.decay = average->decay, .warmup = average->warmup});
  }
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& item : model_->named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  reducer_ = make_gradient_reducer(parameters, runtime_.communicator(),
                                   {.overlap = config_.distributed.overlap});
}

void TrainingRank::warn_of_missing_space() const {
  const auto bytes_of = [](const StateDict& state) { return tensor_bytes(to_dict(state)); };
  const std::uint64_t bytes = bytes_of(state_dict(*model_)) + bytes_of(optimizer_->state()) +
                              bytes_of(method_->state({})) +
                              (average_ ? bytes_of(average_->tensors()) : 0);
  const std::string warning = missing_space(
      checkpoint_folder(),
      {.bytes = bytes,
       .epochs = static_cast<int>(std::min(config_.checkpoint.keep, config_.training.epochs)),
       .best = data_->has_validation()});
  if (!warning.empty()) {
    log_warning(warning);
  }
}

void TrainingRank::open_run_files(std::int64_t resumed_update, std::int64_t saved_update) {
  if (policy_.kind == ResumePolicy::Kind::kNever) {
    set_aside_old_run(directory_->path());
  }
  write_run_files(directory_->path(), run_.loaded,
                  {.command = run_.command,
                   .hosts = host_names(runtime_.hosts()),
                   .launcher = std::string(launcher_name(runtime_.environment().launcher)),
                   .launch = launch_identity(runtime_),
                   .world_size = world_size(),
                   .compute_threads = runtime_.threads().compute,
                   .seed = config_.run.seed,
                   .data_fingerprint = resume_key_.data_fingerprint});
  const bool terminal = runtime_.environment().console_is_terminal;
  const ProgressMode progress = run_.progress == ProgressMode::kAuto && terminal
                                    ? ProgressMode::kBar
                                    : resolve_progress_mode(run_.progress);
  std::cout << "world size " << world_size()
            << " (launcher: " << launcher_name(runtime_.environment().launcher) << ")" << std::endl;
  if (resumed_update > 0) {
    std::cout << "resumed from update " << resumed_update << std::endl;
  } else if (!weights_line_.empty()) {
    std::cout << weights_line_ << std::endl;
  }
  sinks_.add(
      make_sinks(directory_->path(), config_, progress,
                 {.epochs = static_cast<int>(shape_.epochs), .updates = shape_.last_update()},
                 saved_update > 0 ? std::optional(saved_update) : std::nullopt));
}

TrainerParts TrainingRank::trainer_parts() {
  TrainerParts parts{.model = *model_,
                     .method = *method_,
                     .optimizer = *optimizer_,
                     .reducer = *reducer_,
                     .communicator = runtime_.communicator(),
                     .sampler = data_->sampler(),
                     .loader = data_->train_loader(),
                     .sink = sinks_,
                     .checkpoints = checkpoints_ ? &*checkpoints_ : nullptr,
                     .average = average_ ? &*average_ : nullptr};
  if (data_->has_validation()) {
    parts.validate = [this] { return validate(); };
  }
  if (overfitting_attack_) {
    parts.check_overfitting = [this] {
      return data_->check_overfitting(*model_, *overfitting_attack_);
    };
  }
  parts.stop_requested = [this] { return stop_reason(runtime_.stop_requested()); };
  parts.saves_requested = [this] { return runtime_.saves_requested(); };
  parts.alive = [this] { runtime_.heartbeat().touch(); };
  parts.enter_phase = [this](std::string_view phase, std::int64_t update) {
    runtime_.enter_phase(phase, update);
  };
  return parts;
}

// A restart before the next save goes on from last.pt, which must not be one of before.
void TrainingRank::take_up_named_file() {
  if (policy_.kind == ResumePolicy::Kind::kFile) {
    checkpoints_->save(*checkpoint_);
  }
}

StopReason TrainingRank::train() {
  if (is_main_rank()) {
    // What the command names is there for the same command again.
    checkpoints_.emplace(checkpoint_folder(), static_cast<int>(config_.checkpoint.keep),
                         run_.resume.file);
    // Of an earlier process that was killed; the lock keeps living ones out.
    remove_interrupted_writes(directory_->path());
    remove_interrupted_writes(checkpoint_folder());
  }
  Trainer trainer(trainer_parts(),
                  trainer_options(config_, shape_, runtime_, resume_key_, data_->sets()));
  std::int64_t saved_update = 0;  // not that of the run when its updates have other samples now
  if (checkpoint_) {
    saved_update = checkpoint_->as_dict().at("progress").as_dict().at("update").as_int();
    trainer.restore(*checkpoint_);
    if (is_main_rank()) {
      take_up_named_file();
    }
    checkpoint_.reset();
  }
  // Not before the checkpoint has been found to fit: a refused resume leaves the old files as they
  // are.
  if (is_main_rank()) {
    announce();
    warn_of_missing_space();
    open_run_files(trainer.progress().update, saved_update);
  }
  loader_watch_ = runtime_.watch_loaders(data_->loaders());
  const StopReason reason = trainer.run();
  if (runtime_.stop_requested() != StopRequest::kNone) {
    log_info("this process was asked to stop by ", request_name(runtime_.stop_requested()));
  }
  if (is_main_rank()) {
    report_end(trainer, reason);
  }
  return reason;
}

void TrainingRank::report_end(const Trainer& trainer, StopReason reason) {
  const std::int64_t updates = trainer.progress().update;
  if (reason != StopReason::kFinished) {
    report_stopped(directory_->path(), config_, reason, updates);
    return;
  }
  runtime_.heartbeat().set_phase("report");
  ReportData report{.title = config_.run.name,
                    .metrics = read_metrics(directory_->path() / "metrics.jsonl"),
                    .attack = validation_attack_ ? validation_attack_->settings : "",
                    .configuration = print_config(run_.loaded),
                    .examples = {}};
  if (data_->has_validation() && validation_attack_) {
    report.examples =
        make_examples(evaluated_model(), *data_->sets().validation, data_->validation_loader(),
                      *validation_attack_, runtime_.placement(), kReportExamples);
  }
  report_finished(directory_->path(), report,
                  (updates + shape_.updates_per_epoch - 1) / shape_.updates_per_epoch);
}

}  // namespace

int run_training_rank(const TrainingRun& run, const Catalogs& catalogs) {
  RankRuntime runtime(run.environment, run.loaded.config, run.cpus);
  runtime.heartbeat().set_observer(run.on_phase);
  return guard_rank(runtime, [&] { return TrainingRank(run, catalogs, runtime).work(); });
}

}  // namespace temper
