#include "recipe/check_config.h"

#include <algorithm>
#include <cmath>

#include "recipe/describe.h"
#include "recipe/value_text.h"
#include "temper/core/text.h"

namespace temper::recipe {
namespace {

bool has_clean_forward(const std::string& method) {
  return method == "standard" || method == "mixed" || method == "trades" || method == "mart";
}
bool has_adversarial_forward(const std::string& method) { return method != "standard"; }
// Nothing is known about the forwards of the others.
bool is_of_the_library(const std::string& method) {
  return std::ranges::find(kMethods, method) != kMethods.end();
}

class Checker {
 public:
  Checker(const Config& config, const Places& places, Problems& problems)
      : config_(config), places_(places), problems_(problems), bad_(problems.paths()) {}

  void check_data() const;
  void check_split_and_extra() const;
  void check_model() const;
  void check_threat_model() const;
  void check_attack(const AttackConfig& attack, const std::string& path) const;
  void check_apgd(const AttackConfig& attack, const std::string& path) const;
  void check_method() const;
  void check_method_parts() const;
  void check_training() const;
  void check_optimizer_and_schedule() const;
  void check_validation() const;

 private:
  // Reports a problem of the keys `paths` together, at the first one that was given. A key that
  // could not be read has its default here, so nothing is said about it.
  void add(const std::vector<std::string>& paths, const std::string& text) const {
    if (std::ranges::any_of(paths, [&](const auto& path) { return bad_.contains(path); })) {
      return;
    }
    for (const std::string& path : paths) {
      if (const auto found = places_.find(path); found != places_.end()) {
        problems_.add(found->second, path, text);
        return;
      }
    }
    problems_.add({}, paths.front(), text);
  }

  void check_transform(const TransformConfig& transform, const std::string& path) const;
  void check_normalization() const;
  void check_budget(double value, const std::string& path) const;

  const Config& config_;
  const Places& places_;
  Problems& problems_;
  const std::set<std::string> bad_;
};

void Checker::check_data() const {
  const DataConfig& data = config_.data;
  const std::int64_t expected = data.format == "cifar10" ? 10 : data.format == "cifar100" ? 100 : 0;
  if (expected != 0 && data.classes != expected) {
    add({"data.classes", "data.format"},
        concat(data.format, " has ", expected, " classes, not ", data.classes));
  }
  if (expected != 0 && data.channels != 3) {
    add({"data.channels", "data.format"}, concat(data.format, " has 3 channels"));
  }
  check_split_and_extra();
  if (!data.validation && data.validation_split == 0 && !config_.validation.every.is_zero()) {
    add({"data.validation", "validation.every"},
        "there is no data to validate with; give it, or set validation.every to 0ep");
  }
  check_transform(data.transform.train, "data.transform.train");
  check_transform(data.transform.evaluation, "data.transform.evaluation");
  check_normalization();
}

void Checker::check_split_and_extra() const {
  const DataConfig& data = config_.data;
  if (data.validation_split > 0 && data.validation) {
    add({"data.validation_split", "data.validation"},
        "there is data.validation, too: give one of the two, and null for the other");
  }
  if (!data.extra) {
    return;
  }
  if (data.extra->path.empty()) {
    add({"data.extra.path", "data.extra"}, "give the path of the extra data");
  }
  const bool divergence = config_.method.name == "trades";
  const bool mixes = config_.training.mixup > 0 || config_.training.cutmix > 0;
  if (data.extra->unlabelled && (!divergence || mixes)) {
    add({"data.extra.unlabelled", "method.name", "training.mixup", "training.cutmix"},
        divergence ? "mixup and cutmix need labels"
                   : concat("method ", config_.method.name,
                            " needs labels; only the divergence of trades does without"));
  }
}

void Checker::check_transform(const TransformConfig& transform, const std::string& path) const {
  for (const TransformStepConfig& step : transform.steps) {
    if (step.name == "rand_augment" && step.magnitude >= step.bins) {
      add({path + ".magnitude", path + ".bins", path},
          concat("magnitude ", step.magnitude, " is not below the number of bins, ", step.bins));
    }
  }
  // Crops make squares, which a resize keeps; of other images a resize leaves one side open.
  std::int64_t side = 0;
  for (const TransformStepConfig& step : transform.steps) {
    if (has_size(step.name) && (side != 0 || step.name != "resize")) {
      side = step.size;
    }
  }
  if (side != 0 && side != config_.data.image_size) {
    add({path, "data.image_size"}, concat("makes images of ", side, 'x', side,
                                          ", data.image_size is ", config_.data.image_size));
  }
}

void Checker::check_normalization() const {
  const NormalizationConfig& normalization = config_.data.normalization;
  const std::string& preset = normalization.preset;
  const std::int64_t channels = config_.data.channels;
  if (preset.empty()) {
    for (const auto* list : {&normalization.mean, &normalization.std}) {
      if (std::ssize(*list) != channels) {
        add({list == &normalization.mean ? "data.normalization.mean" : "data.normalization.std",
             "data.normalization"},
            concat("expected one number for each of the ", channels, " channels, found ",
                   list->size()));
      }
    }
    return;
  }
  const std::int64_t expected = preset == "none" ? channels : preset == "mnist" ? 1 : 3;
  if (channels != expected) {
    add({"data.normalization", "data.channels"},
        concat("normalization '", preset, "' is for ", expected, " channels, data.channels is ",
               channels));
  }
}

void Checker::check_model() const {
  const ModelConfig& model = config_.model;
  const std::string& name = model.architecture;
  const std::int64_t size = name == "digits_cnn"                         ? 8
                            : name == "mnist_cnn" || name == "small_cnn" ? 28
                                                                         : 0;
  if (size != 0 && (config_.data.channels != 1 || config_.data.image_size != size)) {
    add({"model.architecture", "data.channels", "data.image_size"},
        concat(model.architecture, " takes images of 1x", size, 'x', size, ", data has ",
               config_.data.channels, 'x', config_.data.image_size, 'x', config_.data.image_size));
  }
  if (!name.starts_with("resnet") && model.small_images) {
    add({"model.small_images", "model.architecture"}, concat(name, " has no other stem"));
  }
  const std::string weights = model.initial_weights.value_or("weights.pt");
  if (!weights.ends_with(".pt") && !weights.ends_with(".pth") &&
      !weights.ends_with(".safetensors")) {
    add({"model.initial_weights"},
        concat("expected a file of PyTorch (.pt, .pth) or safetensors (.safetensors), found '",
               weights, "'"));
  }
  if (!model.ignore_initial.empty() && !model.initial_weights) {
    add({"model.ignore_initial", "model.initial_weights"},
        "there are no initial weights to leave parts out of; give model.initial_weights");
  }
}

void Checker::check_budget(double value, const std::string& path) const {
  const std::string& norm = config_.threat_model.norm;
  const bool linf = norm == "linf";
  const double size = static_cast<double>(config_.data.image_size);
  const double values = static_cast<double>(config_.data.channels) * size * size;
  const double largest = linf ? 1 : norm == "l2" ? std::sqrt(values) : values;
  if (value <= largest) {
    return;
  }
  const std::string meant =
      linf && value <= 255 ? concat("; did you mean '", to_text(value), "/255'?") : "";
  const std::string limit =
      linf ? "images are in [0,1] and this is in the same unit, so that 1 is the most"
           : concat("images are in [0,1], and no two are further apart than ", fixed(largest, 1),
                    " in ", norm);
  add({path, "threat_model.norm"}, concat("must be at most ", linf ? "1" : fixed(largest, 1),
                                          ", found ", to_text(value), ": ", limit, meant));
}

void Checker::check_threat_model() const {
  check_budget(config_.threat_model.epsilon, "threat_model.epsilon");
}

void Checker::check_attack(const AttackConfig& attack, const std::string& path) const {
  if (attack.restarts > 1 && attack.random_start == "none") {
    add({path + ".restarts", path + ".random_start", path + ".name"},
        "without a random start all restarts are the same; set random_start, or restarts to 1");
  }
  if (attack.name == "apgd") {
    check_apgd(attack, path);
    return;
  }
  if (attack.name != "fgsm") {
    check_budget(attack.step_size, path + ".step_size");
    const bool leaves = attack.start_radius > 1 && config_.method.name != "n_fgsm";
    if (leaves && attack.random_start == "uniform") {
      add({path + ".start_radius", "method.name"},
          concat("a start outside of the ball is for method n_fgsm alone, found ",
                 to_text(attack.start_radius), "; the most is 1"));
    }
    return;
  }
  if (attack.keep != "last" || attack.target != "none") {
    add({path + (attack.keep != "last" ? ".keep" : ".target"), path + ".name"},
        "fgsm has no such choice; remove the key, or use pgd with steps: 1");
  }
  if (attack.steps != 1) {
    add({path + ".steps", path + ".name"},
        concat("fgsm takes one step, found ", attack.steps, "; remove the key, or use pgd"));
  }
  if (attack.step_size != config_.threat_model.epsilon) {
    add({path + ".step_size", path + ".name", "threat_model.epsilon"},
        concat("the step of fgsm is epsilon (", value_text(config_.threat_model.epsilon),
               "), found ", value_text(attack.step_size),
               "; remove the key, or use pgd with steps: 1"));
  }
  if (attack.random_start != "none") {
    add({path + ".random_start", path + ".name"},
        "fgsm starts at the image itself; remove the key, or use pgd with steps: 1");
  }
}

void Checker::check_apgd(const AttackConfig& attack, const std::string& path) const {
  if (config_.threat_model.norm == "l1") {
    add({path + ".name", "threat_model.norm"}, "apgd is there for linf and l2; use pgd for l1");
  }
  if (attack.random_start == "normal" || attack.keep != "best" || attack.target != "none" ||
      attack.restarts != 1) {
    const char* key = attack.random_start == "normal" ? ".random_start"
                      : attack.keep != "best"         ? ".keep"
                      : attack.target != "none"       ? ".target"
                                                      : ".restarts";
    add({path + key, path + ".name"},
        "apgd keeps the best iterate of one run, untargeted, from the image or a uniform start; "
        "remove the key, or use pgd");
  }
  if (places_.contains(path + ".step_size")) {
    add({path + ".step_size", path + ".name"},
        "apgd chooses its step sizes itself; remove the key, or use pgd");
  }
}

void Checker::check_method() const {
  const MethodConfig& method = config_.method;
  const BatchNormStatisticsConfig& statistics = method.batch_norm_statistics;
  const bool adversarial = has_adversarial_forward(method.name);
  const bool clean = has_clean_forward(method.name) || !is_of_the_library(method.name);
  const bool updated = (clean && statistics.clean_forward == "update") ||
                       (adversarial && (statistics.adversarial_forward == "update" ||
                                        statistics.attack == "update"));
  if (!updated) {
    const std::string prefix = "method.batch_norm_statistics";
    add({prefix + ".clean_forward", prefix + ".adversarial_forward", prefix, "method.name"},
        concat("with method ", method.name,
               " no forward updates the running statistics, which evaluation needs; set ",
               has_clean_forward(method.name) ? "clean_forward" : "adversarial_forward",
               " to update"));
  }
  const bool without_reference =
      method.name == "standard" || method.name == "mixed" || method.name == "apgd_at";
  if (method.reference_order && without_reference) {
    add({"method.reference_order", "method.name"},
        concat("there is no reference order for ", method.name));
  }
  check_method_parts();
  if (method.reference_order && method.name == "pgd_at" && config_.training.accumulation > 1) {
    add({"method.reference_order", "training.accumulation"},
        "the reference order of pgd_at has no accumulation; set training.accumulation to 1");
  }
  if (method.name == "trades" && method.attack.random_start == "none") {
    add({"method.attack.random_start", "method.attack.name", "method.attack", "method.name"},
        "the loss of the trades attack has no gradient at the clean image, so it would follow "
        "rounding errors; use pgd with random_start: normal or uniform");
  }
  if (method.name == "trades" && method.attack.target != "none") {
    add({"method.attack.target", "method.name"},
        "the attack of trades maximises a divergence and has no target; remove the key");
  }
  if (adversarial) {
    check_attack(method.attack, "method.attack");
  }
}

// What some methods do not have.
void Checker::check_method_parts() const {
  const MethodConfig& method = config_.method;
  const AttackConfig& attack = method.attack;
  const bool trained_on_attack = has_adversarial_forward(method.name) && method.name != "free";
  if (method.weight_perturbation && !trained_on_attack) {
    add({"method.weight_perturbation", "method.name"},
        concat("method ", method.name, " has no weight perturbation; set it to null"));
  }
  if (method.overfitting_check && method.overfitting_check->action == "roll_back" &&
      !trained_on_attack) {
    add({"method.overfitting_check.action", "method.overfitting_check", "method.name"},
        concat("method ", method.name, " has no attack to give more steps; set action to warn"));
  }
  if (method.name == "n_fgsm" && (attack.name != "pgd" || config_.threat_model.norm == "l1")) {
    add({"method.attack.name", "threat_model.norm", "method.name"},
        "n_fgsm takes steps of pgd in linf or l2");
  }
  const char* other = attack.name != "pgd"            ? "name"
                      : attack.steps != 1             ? "steps"
                      : attack.random_start != "none" ? "random_start"
                      : attack.restarts != 1          ? "restarts"
                      : attack.keep != "last"         ? "keep"
                      : attack.target != "none"       ? "target"
                                                      : nullptr;
  if (method.name == "free" && other != nullptr) {
    add({concat("method.attack.", other), "method.attack", "method.name"},
        "free makes its noise along the way, with one step a replay from where it was; of "
        "method.attack it takes step_size alone");
  }
}

void Checker::check_training() const {
  const TrainingConfig& training = config_.training;
  if (training.global_batch_size && training.batch_size_per_process) {
    add({"training.batch_size_per_process", "training.global_batch_size"},
        "give either this or global_batch_size, and null for the other");
  }
  if (training.global_batch_size && training.accumulation > *training.global_batch_size) {
    add({"training.accumulation", "training.global_batch_size"},
        concat("a batch of ", *training.global_batch_size, " cannot be cut into ",
               training.accumulation, " micro-batches"));
  }
}

void Checker::check_optimizer_and_schedule() const {
  const OptimizerConfig& optimizer = config_.optimizer;
  if (optimizer.nesterov && optimizer.name != "sgd") {
    add({"optimizer.nesterov", "optimizer.name"},
        concat(optimizer.name, " has no Nesterov momentum"));
  } else if (optimizer.nesterov && optimizer.momentum == 0) {
    add({"optimizer.nesterov", "optimizer.momentum"}, "Nesterov momentum needs momentum above 0");
  }
  const std::vector<Period>& milestones = config_.schedule.milestones;
  for (std::size_t i = 1; i < milestones.size(); ++i) {
    if (milestones[i].unit != milestones[i - 1].unit) {
      add({"schedule.milestones"},
          concat("all must have one unit, found ", to_text(milestones[i - 1]), " and ",
                 to_text(milestones[i])));
      return;
    }
    if (milestones[i].value <= milestones[i - 1].value) {
      add({"schedule.milestones"}, concat("must increase, found ", to_text(milestones[i - 1]),
                                          " before ", to_text(milestones[i])));
      return;
    }
  }
}

void Checker::check_validation() const {
  const ValidationConfig& validation = config_.validation;
  if (validation.attack) {
    check_attack(*validation.attack, "validation.attack");
  }
  if (validation.patience && validation.every.is_zero()) {
    add({"validation.patience", "validation.every"}, "without validation nothing gets better");
  }
  const std::string& metric = config_.checkpoint.best.metric;
  if (metric == "robust_accuracy" && !validation.attack) {
    add({"checkpoint.best.metric", "validation.attack"},
        "robust accuracy needs validation.attack; set checkpoint.best.metric to clean_accuracy");
  }
  if (metric == "clean_top5_accuracy" && config_.data.classes < 10) {
    add({"checkpoint.best.metric", "data.classes"},
        concat("top-5 accuracy is measured from 10 classes on, data.classes is ",
               config_.data.classes));
  }
}

// Gives the keys of an attack that nobody wrote values that follow from others.
class AttackDefaults {
 public:
  AttackDefaults(AttackConfig& attack, std::string path, double epsilon, const Places& places)
      : attack_(attack), path_(std::move(path)), epsilon_(epsilon), places_(places) {}

  // Those of the training methods that bring an attack of their own.
  void of_method(const std::string& method) {
    if (method == "fgsm_rs" || method == "n_fgsm" || method == "free") {
      set("steps", attack_.steps, 1);
      set("step_size", attack_.step_size, method == "fgsm_rs" ? 1.25 * epsilon_ : epsilon_);
      set("random_start", attack_.random_start, method == "free" ? "none" : "uniform");
    }
    if (method == "n_fgsm") {
      set("start_radius", attack_.start_radius, 2);
    }
    if (method == "apgd_at") {
      set("name", attack_.name, "apgd");
      set("steps", attack_.steps, 2);
    }
  }

  void of_name() {
    if (attack_.name == "fgsm") {
      set("steps", attack_.steps, 1);
      set("step_size", attack_.step_size, epsilon_);
      set("random_start", attack_.random_start, "none");
    }
    if (attack_.name == "apgd") {
      set("keep", attack_.keep, "best");
      set("step_size", attack_.step_size, 2 * epsilon_);
      set("random_start", attack_.random_start, "none");
    }
  }

 private:
  template <typename T, typename U>
  void set(const char* key, T& value, const U& follows) {
    if (!places_.contains(concat(path_, ".", key))) {
      value = follows;
    }
  }

  AttackConfig& attack_;
  const std::string path_;
  const double epsilon_;
  const Places& places_;
};

void resolve_transform(TransformConfig& transform, std::int64_t image_size) {
  for (TransformStepConfig& step : transform.steps) {
    if (step.size == 0 && has_size(step.name)) {
      step.size = image_size;
    }
  }
}

}  // namespace

void resolve_config(Config& config, const Places& places) {
  MethodConfig& method = config.method;
  const std::string statistics = "method.batch_norm_statistics";
  const bool given = places.contains(statistics);
  if ((!has_clean_forward(method.name) || method.reference_order) &&
      !places.contains(statistics + ".adversarial_forward")) {
    method.batch_norm_statistics.adversarial_forward = "update";
  }
  // The official loops of adversarial training attack in training mode, those of TRADES and MART do
  // not.
  const bool in_training_mode =
      method.name == "pgd_at" || method.name == "fgsm_rs" || method.name == "n_fgsm";
  if (method.reference_order && in_training_mode && !given &&
      !places.contains(statistics + ".attack")) {
    method.batch_norm_statistics.attack = "update";
  }
  AttackDefaults defaults(method.attack, "method.attack", config.threat_model.epsilon, places);
  defaults.of_method(method.name);
  defaults.of_name();
  if (config.validation.attack) {
    AttackDefaults(*config.validation.attack, "validation.attack", config.threat_model.epsilon,
                   places)
        .of_name();
  }
  if (config.data.validation_split > 0 && !places.contains("data.validation")) {
    config.data.validation.reset();
  }
  resolve_transform(config.data.transform.train, config.data.image_size);
  resolve_transform(config.data.transform.evaluation, config.data.image_size);
  TrainingConfig& training = config.training;
  if (training.batch_size_per_process && !places.contains("training.global_batch_size")) {
    training.global_batch_size.reset();
  } else if (!training.batch_size_per_process && !training.global_batch_size) {
    training.global_batch_size = TrainingConfig{}.global_batch_size;
  }
}

void check_config(const Config& config, const Places& places, Problems& problems) {
  const Checker checker(config, places, problems);
  checker.check_data();
  checker.check_model();
  checker.check_threat_model();
  checker.check_method();
  checker.check_training();
  checker.check_optimizer_and_schedule();
  checker.check_validation();
}

std::vector<std::string> unused_keys(const Config& config, const Places& places,
                                     const Problems& problems) {
  std::vector<std::string> notices;
  const auto unused = [&](const std::string& path, bool differs, const std::string& why) {
    if (const auto found = places.find(path); found != places.end() && differs) {
      notices.push_back(
          concat(problems.place_text(found->second), ": ", path, ": has no effect ", why));
    }
  };
  const MethodConfig& method = config.method;
  const MethodConfig method_default;
  if (!has_adversarial_forward(method.name)) {
    const std::string why = concat("with method ", method.name);
    unused("method.beta", method.beta != method_default.beta, why);
    unused("method.start_epoch", method.start_epoch != 0, why);
    unused("method.attack", method.attack != method_default.attack, why);
    unused("method.epsilon_warmup", !method.epsilon_warmup.is_zero(), why);
  } else if (method.start_epoch >= config.training.epochs) {
    unused("method.start_epoch", true, "but to train on clean images to the end");
  }
  if (method.name != "free") {
    const std::string why = concat("with method ", method.name);
    unused("method.replays", method.replays != method_default.replays, why);
    unused("method.noise_clamp", method.noise_clamp != method_default.noise_clamp, why);
  }
  if (method.attack.random_start != "normal") {
    unused("method.attack.start_scale",
           method.attack.start_scale != method_default.attack.start_scale,
           "without random_start: normal");
  }
  if (config.schedule.name != "piecewise") {
    const std::string why = concat("with schedule ", config.schedule.name);
    const ScheduleConfig schedule_default;
    unused("schedule.milestones", config.schedule.milestones != schedule_default.milestones, why);
    unused("schedule.factor", config.schedule.factor != schedule_default.factor, why);
  }
  if (config.optimizer.name != "sgd") {
    unused("optimizer.momentum", config.optimizer.momentum != OptimizerConfig{}.momentum,
           concat("with optimizer ", config.optimizer.name));
  }
  return notices;
}

}  // namespace temper::recipe
