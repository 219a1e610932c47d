#include "temper/recipe/training_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "recipe/examples.h"
#include "recipe/rank_runtime.h"
#include "recipe/resume.h"
#include "recipe/run_files.h"
#include "recipe/training_data.h"
#include "recipe/training_inputs.h"
#include "temper/checkpoint/directory.h"
#include "temper/checkpoint/space.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/disk.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/launch/job_time.h"
#include "temper/launch/run_directory.h"
#include "temper/metrics/metrics_log.h"
#include "temper/models/model_state.h"
#include "temper/report/html.h"

namespace temper {
namespace {

constexpr std::uint64_t kReportExamples = 8;

StopReason stop_reason(StopRequest request) {
  switch (request) {
    case StopRequest::kCheckpoint:
      return StopReason::kCheckpoint;
    case StopRequest::kTerminate:
      return StopReason::kTerminate;
    case StopRequest::kInterrupt:
      return StopReason::kInterrupt;
    case StopRequest::kNone:
      break;
  }
  return StopReason::kFinished;
}

std::string_view request_name(StopRequest request) {
  switch (request) {
    case StopRequest::kCheckpoint:
      return "SIGUSR1";
    case StopRequest::kTerminate:
      return "SIGTERM";
    case StopRequest::kInterrupt:
      return "SIGINT";
    case StopRequest::kNone:
      break;
  }
  return "nobody";
}

int exit_status(StopReason reason) {
  switch (reason) {
    case StopReason::kFinished:
      return 0;
    case StopReason::kCheckpoint:
    case StopReason::kTerminate:
      return 75;
    case StopReason::kInterrupt:
      return 130;
    case StopReason::kTimeUp:
      return 124;
  }
  return 1;
}

std::vector<std::string> host_names(const std::vector<RankHost>& hosts) {
  std::vector<std::string> names;
  for (const RankHost& host : hosts) {
    if (std::ranges::find(names, host.host) == names.end()) {
      names.push_back(host.host);
    }
  }
  return names;
}

LaunchIdentity launch_identity(const RankEnvironment& environment,
                               const std::vector<RankHost>& hosts) {
  LaunchIdentity identity{
      .job = slurm_job(),
      .run_id = environment.run_id,
      .master = concat(environment.master_address, ":", environment.master_port),
      .agents = {},
      .restart_count = environment.restart_count};
  for (const RankHost& host : hosts) {
    if (std::ranges::find(identity.agents, host.parent) == identity.agents.end()) {
      identity.agents.push_back(host.parent);
    }
  }
  return identity;
}

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

std::string percent(double fraction) { return concat(fixed(100 * fraction, 2), " %"); }

// One rank's objects, built in the start-up order of a rank.
class TrainingRank {
 public:
  TrainingRank(const TrainingRun& run, const Catalogs& catalogs, RankRuntime& runtime)
      : run_(run), config_(run.loaded.config), catalogs_(catalogs), runtime_(runtime) {}

  int work();

 private:
  void choose_directory();
  void take_up_named_file();
  void build_attacks();
  void build_method_and_shape();
  void announce() const;
  void build_training();
  void warn_of_missing_space() const;
  void open_run_files(std::int64_t resumed_update, std::int64_t saved_update);
  [[nodiscard]] StopReason train();
  [[nodiscard]] TrainerParts trainer_parts();
  [[nodiscard]] TrainerOptions trainer_options() const;
  EvaluationResult validate();
  void report_end(const Trainer& trainer, StopReason reason);
  [[nodiscard]] std::string_view time_text(StopReason reason) const;
  // The weight average if there is one.
  [[nodiscard]] Classifier& evaluated_model() { return average_model_ ? *average_model_ : *model_; }

  [[nodiscard]] bool is_main_rank() const { return runtime_.is_main_rank(); }
  [[nodiscard]] int world_size() const { return runtime_.environment().world_size; }
  [[nodiscard]] std::filesystem::path checkpoint_folder() const {
    return run_directory_ / "checkpoints";
  }

  const TrainingRun& run_;
  const Config& config_;
  const Catalogs& catalogs_;
  RankRuntime& runtime_;
  std::optional<TrainingData> data_;
  ResumeKey resume_key_;
  std::filesystem::path run_directory_;
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
  std::optional<RunDirectoryLock> lock_;
  std::optional<CheckpointDirectory> checkpoints_;
};

int TrainingRank::work() {
  runtime_.open_store();
  runtime_.heartbeat().set_phase("open data");
  data_.emplace(config_, runtime_);
  runtime_.connect();
  choose_directory();
  require_one_process_for_reference(config_, world_size());
  resume_key_ = resume_key(run_, data_->sets(), world_size());
  resume_key_.compute_threads = runtime_.threads().compute;
  require_same_data(runtime_.communicator(), config_, resume_key_.data_fingerprint);
  data_->build_loaders();
  build_method_and_shape();
  build_attacks();
  runtime_.heartbeat().set_phase("read checkpoint");
  policy_ = policy_of_attempt(run_.resume, run_directory_,
                              launch_identity(runtime_.environment(), runtime_.hosts()),
                              slurm_requeues());
  checkpoint_ = find_checkpoint(policy_, checkpoint_folder(), runtime_.communicator(), resume_key_,
                                run_.allowed_changes);
  runtime_.set_compute_threads(static_cast<int>(resume_key_.compute_threads));
  runtime_.heartbeat().set_phase("build model");
  build_training();
  return exit_status(train());
}

void TrainingRank::choose_directory() {
  const RankEnvironment& environment = runtime_.environment();
  RunDirectoryOptions options{.directory = run_.run_directory,
                              .output = config_.run.output,
                              .name = config_.run.name,
                              .job = slurm_job()};
  if (environment.launcher == LauncherKind::kTorchrun) {
    options.identity = launch_identity(environment, runtime_.hosts());
  }
  if (!environment.run_directory.empty()) {
    run_directory_ = environment.run_directory;
  } else if (runtime_.store() != nullptr) {
    run_directory_ = share_run_directory(*runtime_.store(), environment.rank, options,
                                         config_.distributed.timeout);
  } else {
    run_directory_ = choose_run_directory(options);
  }
  if (is_main_rank() && environment.run_directory.empty()) {
    lock_.emplace(run_directory_);  // else the launcher holds it
  }
  if (environment.launcher != LauncherKind::kSpawn) {  // which does this for its ranks
    runtime_.files().open(run_directory_,
                          share_attempt(runtime_.store(), environment.rank, run_directory_,
                                        config_.distributed.timeout));
  }
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
  log_info("run directory ", run_directory_.string());
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

TrainerOptions TrainingRank::trainer_options() const {
  const TrainingConfig& training = config_.training;
  const std::int64_t global_batch = global_batch_size(config_, world_size());
  ValueDict extra = to_entries(resume_key_);
  ValueList classes;
  for (const std::string& name : data_->sets().train->class_names()) {
    classes.emplace_back(name);
  }
  extra["classes"] = std::move(classes);
  return {.seed = config_.run.seed,
          .shape = shape_,
          .learning_rate = base_learning_rate(config_, global_batch),
          .schedule = build_schedule(config_, shape_),
          .gradient_clip = training.gradient_clip,
          .abort_on_nonfinite = training.on_nonfinite == "abort",
          .max_skipped = training.max_skipped,
          .max_time = time_limit(training.max_time, is_main_rank()),
          .validate_every = config_.validation.every,
          .checkpoint_every = config_.checkpoint.every,
          .log_every = config_.logging.every,
          .compare_replicas_every = config_.distributed.compare_replicas,
          .mixing = {.mixup = training.mixup,
                     .cutmix = training.cutmix,
                     .classes = config_.data.classes},
          .max_bad_samples = config_.data.max_bad_samples,
          .loader_cpus = runtime_.cores_of_rank(),
          .classes = config_.data.classes,
          .best = {.kind = config_.checkpoint.best.metric == "clean_accuracy"
                               ? BestMetric::Kind::kCleanAccuracy
                               : BestMetric::Kind::kRobustAccuracy,
                   .larger_is_better = config_.checkpoint.best.mode == "max"},
          .patience = config_.validation.patience,
          .overfitting_check = overfitting_check(config_.method.overfitting_check),
          .placement = runtime_.placement(),
          .checkpoint_extra = std::move(extra)};
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
    set_aside_old_run(run_directory_);
  }
  write_run_files(run_directory_, run_.loaded,
                  {.command = run_.command,
                   .hosts = host_names(runtime_.hosts()),
                   .launcher = std::string(launcher_name(runtime_.environment().launcher)),
                   .launch = launch_identity(runtime_.environment(), runtime_.hosts()),
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
      make_sinks(run_directory_, config_, progress,
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
    remove_interrupted_writes(run_directory_);
    remove_interrupted_writes(checkpoint_folder());
  }
  Trainer trainer(trainer_parts(), trainer_options());
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

// Signals are named where they come in.
std::string_view TrainingRank::time_text(StopReason reason) const {
  if (reason != StopReason::kTimeUp) {
    return "";
  }
  return config_.training.max_time->automatic
             ? ", as the job's time is nearly up (training.max_time=auto)"
             : ", as training.max_time is over";
}

void TrainingRank::report_end(const Trainer& trainer, StopReason reason) {
  if (reason != StopReason::kFinished) {
    std::cout << "stopped after update " << trainer.progress().update << time_text(reason)
              << "; the same command with --run-dir " << run_directory_.string()
              << " goes on from there" << std::endl;
    return;
  }
  runtime_.heartbeat().set_phase("report");
  ReportData report{.title = config_.run.name,
                    .metrics = read_metrics(run_directory_ / "metrics.jsonl"),
                    .attack = validation_attack_ ? validation_attack_->settings : "",
                    .configuration = print_config(run_.loaded),
                    .examples = {}};
  if (data_->has_validation() && validation_attack_) {
    report.examples =
        make_examples(evaluated_model(), *data_->sets().validation, data_->validation_loader(),
                      *validation_attack_, runtime_.placement(), kReportExamples);
  }
  write_report(run_directory_ / "report.html", report);
  if (!report.metrics.train.empty()) {
    const TrainRecord& last = report.metrics.train.back();
    std::cout << "speed: " << fixed(last.images_per_second, 1)
              << " images/s over all processes; peak memory of a process: "
              << fixed(static_cast<double>(last.peak_memory_bytes) / (1 << 20), 0) << " MiB\n";
  }
  std::cout << "report: " << (run_directory_ / "report.html").string() << '\n';
  const std::int64_t updates = trainer.progress().update;
  std::cout << "finished: epoch "
            << (updates + shape_.updates_per_epoch - 1) / shape_.updates_per_epoch;
  if (!report.metrics.validation.empty()) {
    const ValidationRecord& last = report.metrics.validation.back();
    std::cout << ", clean accuracy " << percent(last.clean_accuracy);
    if (last.robust_accuracy) {
      std::cout << ", robust accuracy " << percent(*last.robust_accuracy);
    }
  }
  std::cout << std::endl;
}

}  // namespace

int run_training_rank(const TrainingRun& run, const Catalogs& catalogs) {
  RankRuntime runtime(run.environment, run.loaded.config, run.cpus);
  runtime.heartbeat().set_observer(run.on_phase);
  return guard_rank(runtime, [&] { return TrainingRank(run, catalogs, runtime).work(); });
}

}  // namespace temper
