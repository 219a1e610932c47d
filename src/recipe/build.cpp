#include "temper/recipe/build.h"

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "recipe/method_traits.h"
#include "recipe/value_text.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"

namespace temper {
namespace {

// Channel statistics that the field uses with these data sets.
const std::map<std::string, Normalization>& normalization_presets() {
  static const std::map<std::string, Normalization> presets{
      {"none", {}},
      {"imagenet", {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}},
      {"cifar10", {{0.4914, 0.4822, 0.4465}, {0.2471, 0.2435, 0.2616}}},
      {"cifar100", {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}}},
      {"mnist", {{0.1307}, {0.3081}}},
  };
  return presets;
}

Normalization normalization_of(const DataConfig& data) {
  Normalization normalization = build_normalization(data.normalization);
  if (!normalization.mean.empty() &&
      normalization.mean.size() != static_cast<std::size_t>(data.channels)) {
    throw ConfigError(concat("data.normalization has ", normalization.mean.size(),
                             " channels, data.channels is ", data.channels));
  }
  return normalization;
}

StatisticsMode statistics_mode(const std::string& name) {
  static const std::map<std::string, StatisticsMode> modes{{"update", StatisticsMode::kUpdate},
                                                           {"batch", StatisticsMode::kBatch},
                                                           {"running", StatisticsMode::kRunning}};
  return modes.at(name);
}

RandomStart random_start(const std::string& name) {
  static const std::map<std::string, RandomStart> starts{{"none", RandomStart::kNone},
                                                         {"uniform", RandomStart::kUniform},
                                                         {"normal", RandomStart::kNormal}};
  return starts.at(name);
}

Norm norm_of(const std::string& name) {
  static const std::map<std::string, Norm> norms{
      {"linf", Norm::kLinf}, {"l2", Norm::kL2}, {"l1", Norm::kL1}};
  return norms.at(name);
}

ThreatModel threat_model_of(const Config& config) {
  return {.norm = norm_of(config.threat_model.norm), .epsilon = config.threat_model.epsilon};
}

AttackTarget attack_target(const std::string& name) {
  static const std::map<std::string, AttackTarget> targets{
      {"none", AttackTarget::kNone},
      {"random", AttackTarget::kRandom},
      {"least_likely", AttackTarget::kLeastLikely}};
  return targets.at(name);
}

TransformStep build_color_step(const TransformStepConfig& step) {
  const int fill = static_cast<int>(step.fill);
  const int bins = static_cast<int>(step.bins);
  if (step.name == "vertical_flip") {
    return VerticalFlip{step.probability};
  }
  if (step.name == "color_jitter") {
    return ColorJitter{step.brightness, step.contrast, step.saturation, step.hue};
  }
  if (step.name == "random_grayscale") {
    return RandomGrayscale{step.gray_probability};
  }
  if (step.name == "rand_augment") {
    return RandAugment{static_cast<int>(step.operations), static_cast<int>(step.magnitude), bins,
                       fill};
  }
  if (step.name == "trivial_augment_wide") {
    return TrivialAugmentWide{bins, fill};
  }
  require(step.name == "random_erasing", "no transform ", step.name);
  return RandomErasing{.probability = step.probability,
                       .scale_min = step.erased_scale[0],
                       .scale_max = step.erased_scale[1],
                       .ratio_min = step.erased_ratio[0],
                       .ratio_max = step.erased_ratio[1],
                       .noise = step.value == "noise"};
}

TransformStep build_step(const TransformStepConfig& step, int image_size) {
  const int size = step.size == 0 ? image_size : static_cast<int>(step.size);
  if (step.name == "random_resized_crop") {
    return RandomResizedCrop{.size = size,
                             .scale_min = step.scale[0],
                             .scale_max = step.scale[1],
                             .ratio_min = step.ratio[0],
                             .ratio_max = step.ratio[1]};
  }
  if (step.name == "resize") {
    return Resize{size};
  }
  if (step.name == "center_crop") {
    return CenterCrop{size};
  }
  if (step.name == "random_crop") {
    return RandomCrop{.size = size, .padding = static_cast<int>(step.padding)};
  }
  if (step.name == "horizontal_flip") {
    return HorizontalFlip{step.probability};
  }
  return build_color_step(step);
}

}  // namespace

std::shared_ptr<Classifier> build_architecture(const Config& config, const Catalogs& catalogs) {
  return catalogs.architectures.make(config.model.architecture,
                                     {.classes = config.data.classes,
                                      .channels = config.data.channels,
                                      .image_size = config.data.image_size,
                                      .small_images = config.model.small_images,
                                      .normalization = normalization_of(config.data)});
}

Normalization build_normalization(const NormalizationConfig& config) {
  return config.preset.empty() ? Normalization{config.mean, config.std}
                               : normalization_presets().at(config.preset);
}

namespace {

// To its device and type, channels-last on CUDA.
void place(Classifier& model, const Placement& placement) {
  model.to(placement.device, placement.dtype);
  if (!placement.device.is_cuda()) {
    return;
  }
  for (at::Tensor& parameter : model.parameters()) {
    if (parameter.dim() == 4) {
      // An explicit layout, also for 1x1 kernels, whose strides would otherwise stay ambiguous.
      parameter.set_data(
          at::empty_like(parameter, at::TensorOptions(), at::MemoryFormat::ChannelsLast)
              .copy_(parameter.detach()));
    }
  }
}

}  // namespace

std::shared_ptr<Classifier> build_model(const Config& config, const Catalogs& catalogs,
                                        const Placement& placement, std::string* weights_line) {
  auto model = build_architecture(config, catalogs);
  if (!config.model.initial_weights || !config.model.ignore_initial.empty()) {
    initialize(*model, config.run.seed);
  }
  if (config.model.initial_weights) {
    const std::string line = load_initial_weights(*model, config.model);
    if (weights_line != nullptr) {
      *weights_line = line;
    }
  }
  place(*model, placement);
  return model;
}

std::shared_ptr<Classifier> build_average_model(const Config& config, const Catalogs& catalogs,
                                                const Placement& placement) {
  auto model = build_architecture(config, catalogs);
  place(*model, placement);
  for (at::Tensor& parameter : model->parameters()) {
    parameter.set_requires_grad(false);
  }
  return model;
}

std::string attack_name(const AttackConfig& attack) {
  if (attack.name == "fgsm") {
    return attack.name;
  }
  if (attack.name == "apgd") {
    return concat("apgd-", attack.steps);
  }
  return concat(attack.name, "-", attack.steps,
                attack.restarts > 1 ? concat("x", attack.restarts) : "",
                attack.keep == "best" ? "-best" : "",
                attack.target == "none" ? "" : concat("-", attack.target));
}

std::string attack_settings(const Config& config, const AttackConfig& attack) {
  const std::string ball =
      concat(config.threat_model.norm, " ", recipe::value_text(config.threat_model.epsilon));
  if (attack.name == "fgsm") {
    return concat(ball, ", 1 step of epsilon");
  }
  if (attack.name == "apgd") {
    return concat(ball, ", ", attack.steps, " steps of apgd, ",
                  attack.random_start == "none" ? "no random start" : "uniform start",
                  ", best iterate");
  }
  std::string text =
      concat(ball, ", ", attack.steps, attack.steps == 1 ? " step of " : " steps of ",
             recipe::value_text(attack.step_size));
  text += concat(
      ", ", attack.restarts, attack.restarts == 1 ? " restart, " : " restarts, ",
      attack.random_start == "none" ? "no random start" : concat(attack.random_start, " start"),
      ", ", attack.keep, " iterate",
      attack.target == "none" ? "" : concat(", target ", attack.target));
  return text;
}

namespace {

PgdOptions attack_options(const AttackConfig& attack) {
  return {.steps = static_cast<int>(attack.steps),
          .step_size = attack.step_size,
          .random_start = random_start(attack.random_start),
          .start_scale = attack.start_scale,
          .start_radius = attack.start_radius,
          .restarts = static_cast<int>(attack.restarts),
          .keep_best = attack.keep == "best",
          .target = attack_target(attack.target)};
}

// The attack that a method trains with; null where it has none.
std::shared_ptr<const Attack> training_attack(const Config& config, const Catalogs& catalogs) {
  const MethodConfig& method = config.method;
  if (!recipe::method_traits(method.name).attack) {
    return nullptr;
  }
  PgdOptions options = attack_options(method.attack);
  options.projects = method.name != "n_fgsm";
  options.trades_l2_steps = method.name == "trades" && method.reference_order;
  return catalogs.attacks.make(method.attack.name, threat_model_of(config), options);
}

}  // namespace

NamedAttack build_attack(const Config& config, const AttackConfig& attack,
                         const Catalogs& catalogs) {
  const ThreatModel threat_model = threat_model_of(config);
  const PgdOptions options = attack_options(attack);
  return {.name = attack_name(attack),
          .threat_model = threat_model,
          .attack = catalogs.attacks.make(attack.name, threat_model, options),
          .settings = attack_settings(config, attack),
          .steps = attack.name == "fgsm" ? 1 : options.steps,
          .restarts = options.restarts};
}

NamedAttack overfitting_attack(const Config& config, const Catalogs& catalogs) {
  constexpr int kSteps = 5;
  constexpr int kStepsToTheEdge = 4;
  return build_attack(config,
                      {.steps = kSteps,
                       .step_size = config.threat_model.epsilon / kStepsToTheEdge,
                       .random_start = "uniform"},
                      catalogs);
}

std::shared_ptr<TrainingMethod> build_method(const Config& config, const Catalogs& catalogs,
                                             const RunShape& shape) {
  const MethodConfig& method = config.method;
  const BatchNormStatisticsConfig& statistics = method.batch_norm_statistics;
  MethodOptions options{
      .beta = method.beta,
      .label_smoothing = method.label_smoothing,
      .start_epoch = static_cast<std::uint32_t>(method.start_epoch),
      .epsilon_warmup = shape.in_updates(method.epsilon_warmup),
      .free = {.threat_model = threat_model_of(config),
               .step_size = method.attack.step_size,
               .replays = static_cast<int>(method.replays),
               .clamp = method.noise_clamp == "noise" ? NoiseClamp::kNoise : NoiseClamp::kImage},
      // In the other methods only the modes of the forwards differ.
      .reference_order =
          method.reference_order && (method.name == "trades" || method.name == "pgd_at"),
      .statistics = {.attack = statistics_mode(statistics.attack),
                     .clean_forward = statistics_mode(statistics.clean_forward),
                     .adversarial_forward = statistics_mode(statistics.adversarial_forward)}};
  if (const auto& perturbation = method.weight_perturbation) {
    options.weight_perturbation = {
        .gamma = perturbation->gamma,
        .start_epoch = static_cast<std::uint32_t>(perturbation->start_epoch)};
  }
  return catalogs.methods.make(method.name, training_attack(config, catalogs), options);
}

std::unique_ptr<Optimizer> build_optimizer(const Config& config, Classifier& model) {
  const OptimizerConfig& optimizer = config.optimizer;
  const auto spares = [&](const char* kind) {
    return std::ranges::count(optimizer.no_decay, kind) > 0;
  };
  std::vector<NamedParameter> parameters;
  for (const auto& item : model.named_parameters()) {
    const bool of_norm = std::ranges::any_of(model.batch_norms(), [&](const BatchNorm* layer) {
      return layer->weight.is_same(item.value()) || layer->bias.is_same(item.value());
    });
    const bool spared =
        (of_norm && spares("norm")) || (item.key().ends_with("bias") && spares("bias"));
    parameters.push_back({.name = item.key(), .tensor = item.value(), .decays = !spared});
  }
  if (optimizer.name == "adamw") {
    return make_adamw(std::move(parameters), {.weight_decay = optimizer.weight_decay});
  }
  return make_sgd(std::move(parameters), {.momentum = optimizer.momentum,
                                          .weight_decay = optimizer.weight_decay,
                                          .nesterov = optimizer.nesterov});
}

std::unique_ptr<Dataset> build_dataset(const Config& config, const std::string& format,
                                       const std::string& path) {
  return open_dataset({.format = format,
                       .path = path,
                       .channels = static_cast<int>(config.data.channels),
                       .classes = static_cast<int>(config.data.classes),
                       .upright = config.data.exif_orientation == "apply"});
}

std::unique_ptr<Dataset> build_extra_dataset(const Config& config) {
  const ExtraDataConfig& extra = config.data.extra.value();
  return open_dataset(
      {.format = extra.format,
       .path = extra.path,
       .channels = static_cast<int>(config.data.channels),
       .classes = extra.unlabelled ? 0 : static_cast<int>(config.data.classes),  // 0: any
       .upright = config.data.exif_orientation == "apply",
       .labelled = !extra.unlabelled});
}

LoaderOptions loader_options(const Config& config, bool training) {
  const std::uint64_t quarter = config.data.memory_limit.bytes / 4;
  const bool shared = config.data.validation.has_value() || config.data.validation_split > 0 ||
                      config.method.overfitting_check.has_value();
  const bool skips = config.data.on_bad_sample == "skip";
  return {.memory_limit = !shared    ? config.data.memory_limit.bytes
                          : training ? config.data.memory_limit.bytes - quarter
                                     : quarter,
          .cache = config.data.cache == "ram",
          .on_bad_sample = !skips     ? BadSamplePolicy::kError
                           : training ? BadSamplePolicy::kReplace
                                      : BadSamplePolicy::kLeaveOut,
          .seed = config.run.seed,
          .image_size = static_cast<int>(config.data.image_size),
          .channels = static_cast<int>(config.data.channels)};
}

Transform build_transform(const Config& config, bool training) {
  const TransformConfig& transform =
      training ? config.data.transform.train : config.data.transform.evaluation;
  const int image_size = static_cast<int>(config.data.image_size);
  if (!transform.preset.empty()) {
    return Transform(preset_transform(transform.preset, image_size, training));
  }
  std::vector<TransformStep> steps;
  for (const TransformStepConfig& step : transform.steps) {
    steps.push_back(build_step(step, image_size));
  }
  return Transform(std::move(steps));
}

std::int64_t global_batch_size(const Config& config, int world_size) {
  const TrainingConfig& training = config.training;
  return training.global_batch_size
             ? *training.global_batch_size
             : *training.batch_size_per_process * training.accumulation * world_size;
}

double base_learning_rate(const Config& config, std::int64_t global_batch) {
  const double rate = config.optimizer.learning_rate;
  return config.schedule.reference_batch ? rate * static_cast<double>(global_batch) /
                                               static_cast<double>(*config.schedule.reference_batch)
                                         : rate;
}

ScheduleOptions build_schedule(const Config& config, const RunShape& shape) {
  using Kind = ScheduleOptions::Kind;
  static const std::map<std::string, Kind> kinds{{"constant", Kind::kConstant},
                                                 {"piecewise", Kind::kPiecewise},
                                                 {"cosine", Kind::kCosine},
                                                 {"triangular", Kind::kTriangular}};
  ScheduleOptions options{.kind = kinds.at(config.schedule.name),
                          .factor = config.schedule.factor,
                          .warmup = shape.in_updates(config.schedule.warmup)};
  for (const Period& milestone : config.schedule.milestones) {
    options.milestones.push_back(shape.in_updates(milestone));
  }
  return options;
}

}  // namespace temper
