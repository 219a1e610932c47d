#include "recipe/check_config.h"

#include "recipe/check_method.h"
#include "recipe/config_findings.h"
#include "recipe/describe.h"
#include "temper/core/text.h"

namespace temper::recipe {
namespace {

class Checker {
 public:
  Checker(const Config& config, ConfigFindings& findings) : config_(config), findings_(findings) {}

  void check_data();
  void check_model();
  void check_training();
  void check_optimizer_and_schedule();
  void check_validation();

 private:
  void check_split_and_extra();
  void check_transform(const TransformConfig& transform, const std::string& path);
  void check_normalization();

  const Config& config_;
  ConfigFindings& findings_;
};

void Checker::check_data() {
  const DataConfig& data = config_.data;
  const std::int64_t expected = data.format == "cifar10" ? 10 : data.format == "cifar100" ? 100 : 0;
  if (expected != 0 && data.classes != expected) {
    findings_.add({"data.classes", "data.format"},
                  concat(data.format, " has ", expected, " classes, not ", data.classes));
  }
  if (expected != 0 && data.channels != 3) {
    findings_.add({"data.channels", "data.format"}, concat(data.format, " has 3 channels"));
  }
  check_split_and_extra();
  if (!data.validation && data.validation_split == 0 && !config_.validation.every.is_zero()) {
    findings_.add({"data.validation", "validation.every"},
                  "there is no data to validate with; give it, or set validation.every to 0ep");
  }
  check_transform(data.transform.train, "data.transform.train");
  check_transform(data.transform.evaluation, "data.transform.evaluation");
  check_normalization();
}

void Checker::check_split_and_extra() {
  const DataConfig& data = config_.data;
  if (data.validation_split > 0 && data.validation) {
    findings_.add({"data.validation_split", "data.validation"},
                  "there is data.validation, too: give one of the two, and null for the other");
  }
  if (!data.extra) {
    return;
  }
  if (data.extra->path.empty()) {
    findings_.add({"data.extra.path", "data.extra"}, "give the path of the extra data");
  }
  const bool divergence = config_.method.name == "trades";
  const bool mixes = config_.training.mixup > 0 || config_.training.cutmix > 0;
  if (data.extra->unlabelled && (!divergence || mixes)) {
    findings_.add({"data.extra.unlabelled", "method.name", "training.mixup", "training.cutmix"},
                  divergence ? "mixup and cutmix need labels"
                             : concat("method ", config_.method.name,
                                      " needs labels; only the divergence of trades does without"));
  }
}

void Checker::check_transform(const TransformConfig& transform, const std::string& path) {
  for (const TransformStepConfig& step : transform.steps) {
    if (step.name == "rand_augment" && step.magnitude >= step.bins) {
      findings_.add(
          {path + ".magnitude", path + ".bins", path},
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
    findings_.add({path, "data.image_size"},
                  concat("makes images of ", side, 'x', side, ", data.image_size is ",
                         config_.data.image_size));
  }
}

void Checker::check_normalization() {
  const NormalizationConfig& normalization = config_.data.normalization;
  const std::string& preset = normalization.preset;
  const std::int64_t channels = config_.data.channels;
  if (preset.empty()) {
    for (const auto* list : {&normalization.mean, &normalization.std}) {
      if (std::ssize(*list) != channels) {
        findings_.add(
            {list == &normalization.mean ? "data.normalization.mean" : "data.normalization.std",
             "data.normalization"},
            concat("expected one number for each of the ", channels, " channels, found ",
                   list->size()));
      }
    }
    return;
  }
  const std::int64_t expected = preset == "none" ? channels : preset == "mnist" ? 1 : 3;
  if (channels != expected) {
    findings_.add({"data.normalization", "data.channels"},
                  concat("normalization '", preset, "' is for ", expected,
                         " channels, data.channels is ", channels));
  }
}

void Checker::check_model() {
  const ModelConfig& model = config_.model;
  const std::string& name = model.architecture;
  const std::int64_t size = name == "digits_cnn"                         ? 8
                            : name == "mnist_cnn" || name == "small_cnn" ? 28
                                                                         : 0;
  if (size != 0 && (config_.data.channels != 1 || config_.data.image_size != size)) {
    findings_.add(
        {"model.architecture", "data.channels", "data.image_size"},
        concat(model.architecture, " takes images of 1x", size, 'x', size, ", data has ",
               config_.data.channels, 'x', config_.data.image_size, 'x', config_.data.image_size));
  }
  if (!name.starts_with("resnet") && model.small_images) {
    findings_.add({"model.small_images", "model.architecture"}, concat(name, " has no other stem"));
  }
  const std::string weights = model.initial_weights.value_or("weights.pt");
  if (!weights.ends_with(".pt") && !weights.ends_with(".pth") &&
      !weights.ends_with(".safetensors")) {
    findings_.add(
        {"model.initial_weights"},
        concat("expected a file of PyTorch (.pt, .pth) or safetensors (.safetensors), found '",
               weights, "'"));
  }
  if (!model.ignore_initial.empty() && !model.initial_weights) {
    findings_.add({"model.ignore_initial", "model.initial_weights"},
                  "there are no initial weights to leave parts out of; give model.initial_weights");
  }
}

void Checker::check_training() {
  const TrainingConfig& training = config_.training;
  if (training.global_batch_size && training.batch_size_per_process) {
    findings_.add({"training.batch_size_per_process", "training.global_batch_size"},
                  "give either this or global_batch_size, and null for the other");
  }
  if (training.global_batch_size && training.accumulation > *training.global_batch_size) {
    findings_.add({"training.accumulation", "training.global_batch_size"},
                  concat("a batch of ", *training.global_batch_size, " cannot be cut into ",
                         training.accumulation, " micro-batches"));
  }
}

void Checker::check_optimizer_and_schedule() {
  const OptimizerConfig& optimizer = config_.optimizer;
  if (optimizer.nesterov && optimizer.name != "sgd") {
    findings_.add({"optimizer.nesterov", "optimizer.name"},
                  concat(optimizer.name, " has no Nesterov momentum"));
  } else if (optimizer.nesterov && optimizer.momentum == 0) {
    findings_.add({"optimizer.nesterov", "optimizer.momentum"},
                  "Nesterov momentum needs momentum above 0");
  }
  const std::vector<Period>& milestones = config_.schedule.milestones;
  for (std::size_t i = 1; i < milestones.size(); ++i) {
    if (milestones[i].unit != milestones[i - 1].unit) {
      findings_.add({"schedule.milestones"},
                    concat("all must have one unit, found ", to_text(milestones[i - 1]), " and ",
                           to_text(milestones[i])));
      return;
    }
    if (milestones[i].value <= milestones[i - 1].value) {
      findings_.add({"schedule.milestones"},
                    concat("must increase, found ", to_text(milestones[i - 1]), " before ",
                           to_text(milestones[i])));
      return;
    }
  }
}

void Checker::check_validation() {
  const ValidationConfig& validation = config_.validation;
  if (validation.patience && validation.every.is_zero()) {
    findings_.add({"validation.patience", "validation.every"},
                  "without validation nothing gets better");
  }
  const std::string& metric = config_.checkpoint.best.metric;
  if (metric == "robust_accuracy" && !validation.attack) {
    findings_.add(
        {"checkpoint.best.metric", "validation.attack"},
        "robust accuracy needs validation.attack; set checkpoint.best.metric to clean_accuracy");
  }
  if (metric == "clean_top5_accuracy" && config_.data.classes < 10) {
    findings_.add({"checkpoint.best.metric", "data.classes"},
                  concat("top-5 accuracy is measured from 10 classes on, data.classes is ",
                         config_.data.classes));
  }
}

}  // namespace

void check_config(const Config& config, const Places& places, Problems& problems) {
  ConfigFindings findings(places, problems);
  Checker checker(config, findings);
  checker.check_data();
  checker.check_model();
  check_method(config, findings);
  checker.check_training();
  checker.check_optimizer_and_schedule();
  checker.check_validation();
}

}  // namespace temper::recipe
