#pragma once
// The configuration of a run as plain values, one struct a section of the YAML file. The defaults
// stand here and only here; names, bounds, choices and help of the keys are described once in
// src/recipe/describe.h. docs/configuration.md is made from both.
//
// `std::nullopt` stands for null, or for the word (auto, all) that is named beside the field. A
// configuration that load_config returned is complete: values that follow from others are filled
// in.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "temper/core/units.h"

namespace temper {

struct RunConfig {
  std::string name;  // default: the name of the last configuration file
  std::string output = "runs";
  std::uint64_t seed = 0;
  bool deterministic = false;
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

// One step of an image transform; only the fields of the named step have a meaning.
struct TransformStepConfig {
  std::string name;       // one of kTransformSteps, src/recipe/describe.h
  std::int64_t size = 0;  // pixels; 0 in a file: data.image_size
  std::int64_t padding = 0;
  double probability = 0.5;
  std::array<double, 2> scale{0.08, 1};               // least and largest part of the area
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  // least and largest width / height
  double gray_probability = 0.1;
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;  // color_jitter
  std::int64_t operations = 2, magnitude = 9, bins = 31;         // rand_augment
  std::int64_t fill = 0;                                         // level, 0 to 255
  std::array<double, 2> erased_scale{0.02, 0.33};                // as scale, of random_erasing
  std::array<double, 2> erased_ratio{0.3, 3.3};                  // height / width
  std::string value = "black";                                   // black, noise
  friend bool operator==(const TransformStepConfig&, const TransformStepConfig&) = default;
};

// A preset, or a list of steps when `preset` is empty.
struct TransformConfig {
  std::string preset = "imagenet";  // imagenet, cifar, mnist, none
  std::vector<TransformStepConfig> steps = {};
  friend bool operator==(const TransformConfig&, const TransformConfig&) = default;
};

struct TransformsConfig {
  TransformConfig train;
  TransformConfig evaluation;
  friend bool operator==(const TransformsConfig&, const TransformsConfig&) = default;
};

// A preset, or one mean and deviation a channel when `preset` is empty.
struct NormalizationConfig {
  std::string preset = "imagenet";  // imagenet, cifar10, cifar100, mnist, none
  std::vector<double> mean;
  std::vector<double> std;
  friend bool operator==(const NormalizationConfig&, const NormalizationConfig&) = default;
};

struct ExtraDataConfig {
  std::string format = "npz";
  std::string path;
  double fraction = 0.7;
  bool unlabelled = false;
  friend bool operator==(const ExtraDataConfig&, const ExtraDataConfig&) = default;
};

struct DataConfig {
  std::string format = "folder";
  std::string train = "data/imagenet100/train";
  std::optional<std::string> validation = "data/imagenet100/val";
  std::optional<std::string> test;
  double validation_split = 0;
  std::optional<ExtraDataConfig> extra;
  std::int64_t classes = 100;
  std::int64_t image_size = 224;
  std::int64_t channels = 3;
  TransformsConfig transform;
  NormalizationConfig normalization;
  std::optional<std::int64_t> workers;  // nullopt: auto
  ByteSize memory_limit{std::uint64_t{4} << 30};
  std::string cache = "none";
  std::string exif_orientation = "ignore";  // ignore, apply
  std::string on_bad_sample = "error";
  double max_bad_samples = 0.01;
  std::string last_batch = "keep";
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

struct ModelConfig {
  std::string architecture = "resnet18";
  bool small_images = false;
  std::optional<std::string> initial_weights;
  std::vector<std::string> ignore_initial;  // parts of the model that are drawn from run.seed
  std::string batch_norm = "sync";          // sync, local
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct ThreatModelConfig {
  std::string norm = "linf";
  double epsilon = 4.0 / 255;  // in pixel units of [0,1] images
  friend bool operator==(const ThreatModelConfig&, const ThreatModelConfig&) = default;
};

// For fgsm, load_config sets steps 1, step_size epsilon and random_start none; for apgd keep best,
// step_size 2 epsilon and random_start none; the methods of one step have defaults of their own.
struct AttackConfig {
  std::string name = "pgd";
  std::int64_t steps = 10;
  double step_size = 1.0 / 255;          // in pixel units of [0,1] images
  std::string random_start = "uniform";  // none, uniform, normal
  double start_scale = 0.001;            // standard deviation of a normal start
  double start_radius = 1;               // of a uniform start, in epsilons
  std::int64_t restarts = 1;
  std::string keep = "last";    // last, best
  std::string target = "none";  // none, random, least_likely
  friend bool operator==(const AttackConfig&, const AttackConfig&) = default;
};

struct WeightPerturbationConfig {
  double gamma = 0.005;
  std::int64_t start_epoch = 10;
  friend bool operator==(const WeightPerturbationConfig&,
                         const WeightPerturbationConfig&) = default;
};

// Each is update, batch or running.
struct BatchNormStatisticsConfig {
  std::string attack = "running";
  std::string clean_forward = "update";
  std::string adversarial_forward = "batch";  // update for a method without a clean forward
  friend bool operator==(const BatchNormStatisticsConfig&,
                         const BatchNormStatisticsConfig&) = default;
};

// Of catastrophic overfitting.
struct OverfittingCheckConfig {
  Period every{1, Period::Unit::kEpochs};
  std::int64_t samples = 1024;
  double fall = 0.2;
  std::string action = "warn";  // warn, roll_back
  friend bool operator==(const OverfittingCheckConfig&, const OverfittingCheckConfig&) = default;
};

struct MethodConfig {
  std::string name = "trades";
  double beta = 6.0;
  std::int64_t start_epoch = 0;
  AttackConfig attack;
  double label_smoothing = 0;
  std::optional<WeightPerturbationConfig> weight_perturbation;
  Period epsilon_warmup;
  std::int64_t replays = 8;           // of a batch, by free
  std::string noise_clamp = "image";  // of free: image, noise
  std::optional<OverfittingCheckConfig> overfitting_check;
  bool reference_order = false;
  BatchNormStatisticsConfig batch_norm_statistics;
  friend bool operator==(const MethodConfig&, const MethodConfig&) = default;
};

struct WeightAverageConfig {
  double decay = 0.999;
  bool warmup = true;
  friend bool operator==(const WeightAverageConfig&, const WeightAverageConfig&) = default;
};

// A duration, or what the scheduler leaves: `auto`.
struct TimeLimit {
  std::chrono::milliseconds duration{};
  bool automatic = false;
  friend bool operator==(const TimeLimit&, const TimeLimit&) = default;
};

struct TrainingConfig {
  std::int64_t epochs = 100;
  std::optional<std::int64_t> max_updates;
  std::optional<TimeLimit> max_time;
  // Samples of an update over all processes, or of a process and micro-batch; after load_config
  // exactly one of the two is set.
  std::optional<std::int64_t> global_batch_size = 512;
  std::optional<std::int64_t> batch_size_per_process;
  std::int64_t accumulation = 1;
  std::string on_nonfinite = "skip";
  std::int64_t max_skipped = 10;
  std::string precision = "fp32";
  std::optional<double> gradient_clip;
  double mixup = 0;
  double cutmix = 0;
  std::optional<WeightAverageConfig> weight_average;
  friend bool operator==(const TrainingConfig&, const TrainingConfig&) = default;
};

struct OptimizerConfig {
  std::string name = "sgd";
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  bool nesterov = false;
  std::vector<std::string> no_decay;  // of norm, bias
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

struct ScheduleConfig {
  std::string name = "piecewise";
  std::vector<Period> milestones{{75, Period::Unit::kEpochs}, {90, Period::Unit::kEpochs}};
  double factor = 0.1;
  Period warmup;
  std::optional<std::int64_t> reference_batch;
  friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

struct ValidationConfig {
  Period every{1, Period::Unit::kEpochs};                         // 0: never
  std::optional<AttackConfig> attack{AttackConfig{.steps = 20}};  // nullopt: clean accuracy only
  std::optional<std::int64_t> samples;                            // nullopt: all
  std::optional<std::int64_t> batch_size;                         // nullopt: auto
  std::optional<std::int64_t> patience;                           // nullopt: no early stop
  friend bool operator==(const ValidationConfig&, const ValidationConfig&) = default;
};

struct BestCheckpointConfig {
  std::string metric = "robust_accuracy";
  std::string mode = "max";
  friend bool operator==(const BestCheckpointConfig&, const BestCheckpointConfig&) = default;
};

struct CheckpointConfig {
  Period every{1, Period::Unit::kEpochs};  // 0: only at the end
  std::int64_t keep = 2;
  BestCheckpointConfig best;
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

struct DistributedConfig {
  std::string backend = "auto";  // auto, gloo, nccl
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  bool overlap = true;
  bool check_collectives = false;
  Period compare_replicas{1000, Period::Unit::kUpdates};  // 0: never
  friend bool operator==(const DistributedConfig&, const DistributedConfig&) = default;
};

struct LoggingConfig {
  Period every{50, Period::Unit::kUpdates};
  std::string level = "info";
  bool tensorboard = true;
  friend bool operator==(const LoggingConfig&, const LoggingConfig&) = default;
};

struct Config {
  RunConfig run;
  DataConfig data;
  ModelConfig model;
  ThreatModelConfig threat_model;
  MethodConfig method;
  TrainingConfig training;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  ValidationConfig validation;
  CheckpointConfig checkpoint;
  DistributedConfig distributed;
  LoggingConfig logging;
  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace temper
