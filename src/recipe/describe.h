#pragma once
// What the keys of a configuration are called, may hold and mean: the one description behind
// parsing, range checks, suggestions, --print-config and docs/configuration.md. A visitor is called
// as visitor(name, field, description) for each key of a struct, in the order of the file.

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "temper/recipe/config.h"

namespace temper::recipe {

struct Field {
  std::string_view help = "";
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool positive = false;   // 0 is refused, too
  bool below_max = false;  // max itself is refused, too
  std::vector<std::string> choices = {};
  std::vector<std::string> later = {};  // choices of a later version
  std::string_view default_text = "";   // for a default that the struct cannot hold
  std::string_view absent = "null";     // the word for std::nullopt
};

inline const std::vector<std::string> kTransformPresets{"imagenet", "cifar", "mnist", "none"};
inline const std::vector<std::string> kTransformSteps{
    "random_resized_crop",  "resize",           "center_crop",
    "random_crop",          "horizontal_flip",  "vertical_flip",
    "color_jitter",         "random_grayscale", "rand_augment",
    "trivial_augment_wide", "random_erasing"};
// Those that give images of a size of their own.
inline bool has_size(std::string_view step) {
  return step == "random_resized_crop" || step == "resize" || step == "center_crop" ||
         step == "random_crop";
}
inline const std::vector<std::string> kNormalizations{"imagenet", "cifar10", "cifar100", "mnist",
                                                      "none"};
inline const std::vector<std::string> kStatisticsModes{"update", "batch", "running"};
// Of the library; a program may add more.
inline const std::vector<std::string> kMethods{"standard", "pgd_at", "mixed", "trades", "mart",
                                               "fgsm_rs",  "n_fgsm", "free",  "apgd_at"};

template <typename Visitor>
void describe(Visitor& visit, RunConfig& run) {
  visit("name", run.name,
        {.help = "Name of the experiment, a part of the run directory.",
         .default_text = "name of the last file"});
  visit("output", run.output, {.help = "Folder that receives the run directories."});
  visit("seed", run.seed, {.help = "Decides everything random."});
  visit("deterministic", run.deterministic,
        {.help = "Only deterministic kernels on GPUs. On CPUs every run is deterministic."});
}

// The steps that change colours or erase, with torchvision's parameters and defaults.
template <typename Visitor>
void describe_colors(Visitor& visit, TransformStepConfig& step) {
  if (step.name == "color_jitter") {
    const Field factor{
        .help = "A factor between 1 - x and 1 + x, at least 0.", .min = 0, .max = 1e3};
    visit("brightness", step.brightness, factor);
    visit("contrast", step.contrast, factor);
    visit("saturation", step.saturation, factor);
    visit("hue", step.hue,
          {.help = "A turn between -x and x of the colour circle.", .min = 0, .max = 0.5});
  }
  if (step.name == "rand_augment") {
    visit("operations", step.operations, {.help = "Operations in a row.", .min = 0, .max = 1e3});
    visit("magnitude", step.magnitude,
          {.help = "Their strength, below `bins`.", .min = 0, .max = 999});
  }
  if (step.name == "rand_augment" || step.name == "trivial_augment_wide") {
    visit("bins", step.bins, {.help = "Number of strengths.", .min = 2, .max = 1e3});
    visit("fill", step.fill,
          {.help = "Level of pixels from outside of the image.", .min = 0, .max = 255});
  }
  if (step.name == "random_erasing") {
    visit("probability", step.probability, {.help = "How often to erase.", .min = 0, .max = 1});
    visit("scale", step.erased_scale,
          {.help = "Least and largest part of the area.", .min = 0, .max = 1});
    visit("ratio", step.erased_ratio,
          {.help = "Least and largest height / width.", .min = 0, .positive = true});
    visit("value", step.value,
          {.help = "What is left: black, or noise uniform over all levels.",
           .choices = {"black", "noise"}});
  }
}

template <typename Visitor>
void describe(Visitor& visit, TransformStepConfig& step) {
  visit("name", step.name, {.help = "Which step.", .choices = kTransformSteps});
  if (has_size(step.name)) {
    visit("size", step.size,
          {.help = "Pixels.", .min = 1, .max = 1e5, .default_text = "data.image_size"});
  }
  if (step.name == "random_crop") {
    visit("padding", step.padding, {.help = "Black pixels on each side.", .min = 0, .max = 1e5});
  }
  if (step.name == "horizontal_flip" || step.name == "vertical_flip") {
    visit("probability", step.probability, {.help = "How often to mirror.", .min = 0, .max = 1});
  }
  if (step.name == "random_grayscale") {
    visit("probability", step.gray_probability,
          {.help = "How often the image becomes gray.", .min = 0, .max = 1});
  }
  describe_colors(visit, step);
  if (step.name == "random_resized_crop") {
    visit("scale", step.scale,
          {.help = "Least and largest part of the area.", .min = 0, .max = 1, .positive = true});
    visit("ratio", step.ratio,
          {.help = "Least and largest width / height.", .min = 0, .positive = true});
  }
}

template <typename Visitor>
void describe(Visitor& visit, TransformsConfig& transform) {
  visit("train", transform.train,
        {.help = "How training images are cut and mirrored: a preset or a list of steps.",
         .choices = kTransformPresets});
  visit("evaluation", transform.evaluation,
        {.help = "The same for validation and test images.", .choices = kTransformPresets});
}

template <typename Visitor>
void describe(Visitor& visit, NormalizationConfig& normalization) {
  visit("mean", normalization.mean, {.help = "One number a channel, for pixels in [0,1]."});
  visit("std", normalization.std, {.help = "One number a channel.", .min = 0, .positive = true});
}

template <typename Visitor>
void describe(Visitor& visit, ExtraDataConfig& extra) {
  visit("format", extra.format,
        {.help = "As `data.format`.",
         .choices = {"folder", "pack", "npz", "cifar10", "cifar100", "mnist", "synthetic"}});
  visit("path", extra.path, {.help = "Where they are."});
  visit("fraction", extra.fraction,
        {.help = "Part of each batch; an epoch is one pass over `data.train`.",
         .min = 0,
         .max = 1,
         .positive = true,
         .below_max = true});
  visit("unlabelled", extra.unlabelled,
        {.help = "Their labels are not used: only the divergence of `trades` sees them."});
}

template <typename Visitor>
void describe(Visitor& visit, DataConfig& data) {
  visit("format", data.format,
        {.help = "`folder`: one folder of PNG or JPEG files a class; `pack`: made by `datatool "
                 "pack`; `npz`: arrays images and labels; `cifar10`, `cifar100`, `mnist`: the "
                 "published files; `synthetic`: no files, a path such as "
                 "samples=1000,size=32x32,seed=0. See docs/data.md.",
         .choices = {"folder", "pack", "npz", "cifar10", "cifar100", "mnist", "synthetic"}});
  visit("train", data.train, {.help = "Training data."});
  visit("validation", data.validation, {.help = "Validation data."});
  visit("test", data.test, {.help = "Test data for `evaluator`, which uses `validation` if null."});
  visit("validation_split", data.validation_split,
        {.help =
             "Part of the training data, chosen by the seed, that is held out of the training and "
             "takes the place of `validation`.",
         .min = 0,
         .max = 1,
         .below_max = true});
  visit("extra", data.extra,
        {.help = "Further training data, synthetic or unlabelled: part of every batch."});
  visit("classes", data.classes,
        {.help = "Number of classes; checked against the data.", .min = 2, .max = 1e6});
  visit("image_size", data.image_size,
        {.help = "Width and height of the images that the model sees.", .min = 1, .max = 1e5});
  visit("channels", data.channels,
        {.help = "1 reads gray images, 3 reads RGB.", .choices = {"1", "3"}});
  visit("transform", data.transform, {.help = "Steps between file and model."});
  visit("normalization", data.normalization,
        {.help = "Preset or {mean, std}. Applied inside the model: attacks and budgets see pixels "
                 "in [0,1].",
         .choices = kNormalizations});
  visit("workers", data.workers,
        {.help = "Loader threads of a process; fewer load while other jobs share the host's cores.",
         .min = 1,
         .max = 1024,
         .absent = "auto"});
  visit("memory_limit", data.memory_limit,
        {.help = "Bytes that the loaders of a process may hold: batches, what is decoded, and the "
                 "cache.",
         .min = 1});
  visit("cache", data.cache,
        {.help = "`ram` keeps what was read, as it is stored, as far as `memory_limit` allows.",
         .choices = {"none", "ram"}});
  visit("exif_orientation", data.exif_orientation,
        {.help =
             "Orientation in JPEG and PNG files: `ignore` it, as torchvision does, or `apply` it.",
         .choices = {"ignore", "apply"}});
  visit("on_bad_sample", data.on_bad_sample,
        {.help = "What a damaged file does. `error` ends the run and names it. `skip` puts another "
                 "sample, chosen by the seed, in its place, and in evaluation leaves it out; each "
                 "is named and counted.",
         .choices = {"error", "skip"}});
  visit("max_bad_samples", data.max_bad_samples,
        {.help = "With `skip`: part of an epoch's samples; more end the run.", .min = 0, .max = 1});
  visit("last_batch", data.last_batch,
        {.help = "The smaller last batch of a training epoch. Evaluation always keeps it.",
         .choices = {"keep", "drop"}});
}

template <typename Visitor>
void describe(Visitor& visit, ModelConfig& model) {
  visit("architecture", model.architecture,
        {.help = "The network; ResNets as torchvision defines them; for 32x32 images "
                 "`preactresnet18` of robust_overfitting and AWP, `wideresnet*` of TRADES (depth, "
                 "width; ReLU) and `*_silu` of Gowal et al. (2020); `wide_cnn` for any size, "
                 "`digits_cnn` for 1x8x8, `mnist_cnn` and `small_cnn` (of TRADES) for 1x28x28 "
                 "images.",
         .choices = {"resnet18", "resnet34", "resnet50", "preactresnet18", "wideresnet28_10",
                     "wideresnet34_10", "wideresnet70_16", "wideresnet28_10_silu",
                     "wideresnet70_16_silu", "wide_cnn", "digits_cnn", "mnist_cnn", "small_cnn"}});
  visit("small_images", model.small_images,
        {.help = "ResNets for 32x32 images: 3x3 stem without stride and pooling."});
  visit("initial_weights", model.initial_weights,
        {.help = "File to start from: a PyTorch state dict or a Temper checkpoint (.pt, .pth), or "
                 "safetensors. Names of TRADES, AWP and RobustBench are understood."});
  visit("ignore_initial", model.ignore_initial,
        {.help = "Parts of the model that are not taken from `initial_weights` but drawn from "
                 "`run.seed`: `[fc]` for another number of classes."});
  visit("batch_norm", model.batch_norm,
        {.help = "`sync`: statistics over all processes; `local`: each process its own.",
         .choices = {"sync", "local"}});
}

template <typename Visitor>
void describe(Visitor& visit, ThreatModelConfig& threat) {
  visit("norm", threat.norm,
        {.help = "How a perturbation is measured.", .choices = {"linf", "l2", "l1"}});
  visit("epsilon", threat.epsilon,
        {.help = "Largest perturbation, in pixel units of [0,1] images.", .min = 0});
}

template <typename Visitor>
void describe(Visitor& visit, AttackConfig& attack) {
  visit(
      "name", attack.name,
      {.help = "`fgsm` is one step of size epsilon from the image itself; `apgd` chooses its step "
               "sizes, from 2 epsilon down, and keeps the best iterate.",
       .choices = {"fgsm", "pgd", "apgd"},
       .later = {"fab", "square", "autoattack"}});
  visit("steps", attack.steps, {.help = "Gradient steps.", .min = 1, .max = 65535});
  visit("step_size", attack.step_size,
        {.help = "Length of a step, in pixel units of [0,1] images.", .min = 0});
  visit("random_start", attack.random_start,
        {.help = "`uniform` in the ball, `normal` with `start_scale`, or `none`.",
         .choices = {"none", "uniform", "normal"}});
  visit("start_scale", attack.start_scale,
        {.help = "Standard deviation of a normal start.", .min = 0, .positive = true});
  visit("start_radius", attack.start_radius,
        {.help = "Radius of a uniform start, in epsilons; n_fgsm: 2.",
         .min = 0,
         .max = 100,
         .positive = true});
  visit("restarts", attack.restarts,
        {.help = "Runs from new random starts; each sample keeps the one with the largest loss.",
         .min = 1,
         .max = 1000});
  visit("keep", attack.keep,
        {.help = "Which iterate counts: the `last` one, or the `best`, that with the largest loss, "
                 "for one forward more.",
         .choices = {"last", "best"}});
  visit("target", attack.target,
        {.help = "`none`: away from the label; else towards another class: a `random` one, or the "
                 "`least_likely`.",
         .choices = {"none", "random", "least_likely"}});
}

template <typename Visitor>
void describe(Visitor& visit, WeightPerturbationConfig& perturbation) {
  visit("gamma", perturbation.gamma,
        {.help = "Size of the perturbation relative to the weights.", .min = 0, .max = 1});
  visit("start_epoch", perturbation.start_epoch, {.help = "First epoch with it.", .min = 0});
}

template <typename Visitor>
void describe(Visitor& visit, OverfittingCheckConfig& check) {
  visit("every", check.every, {.help = "How often.", .positive = true});
  visit("samples", check.samples,
        {.help = "Training images, chosen by the seed, without random transforms; attacked with "
                 "PGD-5 of step size epsilon / 4.",
         .min = 1});
  visit("fall", check.fall,
        {.help = "Alarm when their robust accuracy is this much below the last check's.",
         .min = 0,
         .max = 1,
         .positive = true});
  visit(
      "action", check.action,
      {.help = "`roll_back` takes up the weights of the last check again and doubles the steps of "
               "the attack.",
       .choices = {"warn", "roll_back"}});
}

template <typename Visitor>
void describe(Visitor& visit, BatchNormStatisticsConfig& statistics) {
  visit("attack", statistics.attack,
        {.help = "`update`: batch statistics, running ones updated; `batch`: batch statistics; "
                 "`running`: running statistics.",
         .choices = kStatisticsModes});
  visit("clean_forward", statistics.clean_forward,
        {.help = "The same for the outer forward of clean images.", .choices = kStatisticsModes});
  visit("adversarial_forward", statistics.adversarial_forward,
        {.help = "The same for adversarial images. Default of a method without a clean forward: "
                 "`update`.",
         .choices = kStatisticsModes});
}

template <typename Visitor>
void describe(Visitor& visit, MethodConfig& method) {
  visit("name", method.name,
        {.help = "The training method; `mixed` is CE(clean) + beta CE(adversarial), `pgd_at` "
                 "CE(adversarial) alone; see docs/methods.md.",
         .choices = kMethods});
  visit("beta", method.beta, {.help = "Weight of the robust loss.", .min = 0});
  visit("start_epoch", method.start_epoch,
        {.help = "Train on clean images until this epoch.", .min = 0});
  visit("attack", method.attack, {.help = "The inner maximisation."});
  visit("label_smoothing", method.label_smoothing,
        {.help = "Target (1 - s) one-hot + s / classes.", .min = 0, .max = 1, .below_max = true});
  visit("weight_perturbation", method.weight_perturbation,
        {.help = "Adversarial weight perturbation (AWP)."});
  visit("epsilon_warmup", method.epsilon_warmup,
        {.help = "Time, from `start_epoch` on, over which epsilon and the step size grow from 0."});
  visit("replays", method.replays,
        {.help = "Of `free`: updates from one batch.", .min = 1, .max = 1000});
  visit("noise_clamp", method.noise_clamp,
        {.help = "Of `free`: `image` clamps image + noise to [0,1], `noise` clamps the noise after "
                 "each step.",
         .choices = {"image", "noise"}});
  visit("overfitting_check", method.overfitting_check,
        {.help = "Looks for catastrophic overfitting, for methods with few attack steps."});
  visit("reference_order", method.reference_order,
        {.help = "The forwards of the authors' code, in its order and modes; for pgd_at on one "
                 "process."});
  visit("batch_norm_statistics", method.batch_norm_statistics,
        {.help = "What each forward does with batch norm."});
}

template <typename Visitor>
void describe(Visitor& visit, WeightAverageConfig& average) {
  visit("decay", average.decay,
        {.help = "Kept part of an update.", .min = 0, .max = 1, .below_max = true});
  visit("warmup", average.warmup,
        {.help = "A smaller decay at first: (1 + t) / (10 + t) after t updates."});
}

template <typename Visitor>
void describe(Visitor& visit, TrainingConfig& training) {
  visit("epochs", training.epochs, {.help = "Passes over the data.", .min = 1, .max = 1e6});
  visit("max_updates", training.max_updates,
        {.help = "Stop earlier, after this many updates.", .min = 1});
  visit("max_time", training.max_time,
        {.help =
             "Stop earlier, with a checkpoint and exit status 124. `auto`: before the Slurm job's "
             "time is up, else never.",
         .positive = true});
  visit("global_batch_size", training.global_batch_size,
        {.help = "Samples of an update over all processes, accumulation included. Give this or "
                 "`batch_size_per_process`.",
         .min = 1,
         .max = 1e9});
  visit("batch_size_per_process", training.batch_size_per_process,
        {.help = "Samples of a process and micro-batch.", .min = 1, .max = 1e9});
  visit("accumulation", training.accumulation,
        {.help = "Micro-batches of a process and update.", .min = 1, .max = 1e6});
  visit("on_nonfinite", training.on_nonfinite,
        {.help = "What a loss or gradient that is not finite does; one decision of all ranks.",
         .choices = {"skip", "abort"}});
  visit("max_skipped", training.max_skipped,
        {.help = "More skipped updates in a row end the run.", .min = 0});
  visit(
      "precision", training.precision,
      {.help = "Type of weights and images; within fp32, convolutions on GPUs may use TF32, as in "
               "PyTorch.",
       .choices = {"fp32", "fp64"},
       .later = {"bf16", "fp16"}});
  visit("mixup", training.mixup,
        {.help =
             "MixUp of a batch: parameter of the Beta distribution, e.g. 0.2; 0: none. Accuracies "
             "while training then count the label with the larger share.",
         .min = 0,
         .max = 1000});
  visit("cutmix", training.cutmix,
        {.help = "CutMix likewise, e.g. 1. With both, each is taken for half of the batches.",
         .min = 0,
         .max = 1000});
  visit("gradient_clip", training.gradient_clip,
        {.help = "Largest norm of the gradient.", .min = 0, .positive = true});
  visit("weight_average", training.weight_average,
        {.help = "Exponential average of the weights and batch-norm statistics; validation uses "
                 "it."});
}

template <typename Visitor>
void describe(Visitor& visit, OptimizerConfig& optimizer) {
  visit("name", optimizer.name, {.help = "The optimizer.", .choices = {"sgd", "adamw"}});
  visit("learning_rate", optimizer.learning_rate,
        {.help = "Highest learning rate of the schedule.", .min = 0, .positive = true});
  visit("momentum", optimizer.momentum, {.help = "Of sgd.", .min = 0, .max = 1, .below_max = true});
  visit("weight_decay", optimizer.weight_decay,
        {.help = "L2 penalty; adamw: decoupled.", .min = 0});
  visit("nesterov", optimizer.nesterov, {.help = "Of sgd; needs momentum."});
  visit("no_decay", optimizer.no_decay,
        {.help = "Parameters without weight decay.", .choices = {"norm", "bias"}});
}

template <typename Visitor>
void describe(Visitor& visit, ScheduleConfig& schedule) {
  visit("name", schedule.name,
        {.help = "Course of the learning rate.",
         .choices = {"constant", "piecewise", "cosine", "triangular"}});
  visit("milestones", schedule.milestones,
        {.help = "Of piecewise: where the rate is multiplied by `factor`; increasing, one unit.",
         .positive = true});
  visit("factor", schedule.factor, {.help = "Of piecewise.", .min = 0, .max = 1, .positive = true});
  visit("warmup", schedule.warmup, {.help = "Linear rise from 0 at the start."});
  visit("reference_batch", schedule.reference_batch,
        {.help = "The rate is scaled by global batch size / this number, and the result printed.",
         .min = 1});
}

template <typename Visitor>
void describe(Visitor& visit, ValidationConfig& validation) {
  visit("every", validation.every, {.help = "How often; `0ep`: never."});
  visit("attack", validation.attack, {.help = "For robust accuracy; null: clean accuracy only."});
  visit("samples", validation.samples,
        {.help = "How many samples, the first ones.", .min = 1, .absent = "all"});
  visit("batch_size", validation.batch_size,
        {.help = "Samples of a process and batch.", .min = 1, .max = 1e9, .absent = "auto"});
  visit("patience", validation.patience,
        {.help = "Validations in a row without a better `checkpoint.best.metric` that end the "
                 "training.",
         .min = 1});
}

template <typename Visitor>
void describe(Visitor& visit, BestCheckpointConfig& best) {
  visit("metric", best.metric,
        {.help = "Which validation result decides about `best.pt`.",
         .choices = {"robust_accuracy", "clean_accuracy", "clean_top5_accuracy"}});
  visit("mode", best.mode, {.help = "Which value is best.", .choices = {"max", "min"}});
}

template <typename Visitor>
void describe(Visitor& visit, CheckpointConfig& checkpoint) {
  visit("every", checkpoint.every, {.help = "How often; `0ep`: only at the end."});
  visit("keep", checkpoint.keep,
        {.help = "How many checkpoints of single epochs stay, besides last, best and the file that "
                 "--resume names.",
         .min = 0});
  visit("best", checkpoint.best, {.help = "The checkpoint `best.pt`."});
}

template <typename Visitor>
void describe(Visitor& visit, DistributedConfig& distributed) {
  visit("backend", distributed.backend,
        {.help = "`auto`: nccl on GPUs, gloo on CPUs.", .choices = {"auto", "gloo", "nccl"}});
  visit("timeout", distributed.timeout,
        {.help = "Longest wait for another process.", .positive = true});
  visit("overlap", distributed.overlap,
        {.help = "Reduce gradients while the backward pass still runs."});
  visit("check_collectives", distributed.check_collectives,
        {.help = "Compare what the ranks are about to send to each other, before each collective; "
                 "for debugging, slow."});
  visit("compare_replicas", distributed.compare_replicas,
        {.help = "How often, besides at the start, the bits of the weights of all ranks are "
                 "compared; `0up`: never."});
}

template <typename Visitor>
void describe(Visitor& visit, LoggingConfig& logging) {
  visit("every", logging.every, {.help = "How often training is logged.", .positive = true});
  visit("level", logging.level,
        {.help = "Least important messages that are shown.",
         .choices = {"debug", "info", "warning", "error"}});
  visit("tensorboard", logging.tensorboard, {.help = "Write TensorBoard event files."});
}

template <typename Visitor>
void describe(Visitor& visit, Config& config) {
  visit("run", config.run, {.help = "The run itself."});
  visit("data", config.data, {.help = "Images and labels."});
  visit("model", config.model, {.help = "The network."});
  visit("threat_model", config.threat_model, {.help = "What an attacker may do."});
  visit("method", config.method, {.help = "How a robust network is trained."});
  visit("training", config.training, {.help = "Length, batches and numbers of the training."});
  visit("optimizer", config.optimizer, {.help = "The optimizer."});
  visit("schedule", config.schedule, {.help = "The learning rate over time."});
  visit("validation", config.validation, {.help = "Accuracy during the training."});
  visit("checkpoint", config.checkpoint, {.help = "What is saved and when."});
  visit("distributed", config.distributed, {.help = "Several processes."});
  visit("logging", config.logging, {.help = "What is written about the training."});
}

// A struct with a description of its own.
struct NoVisitor {
  template <typename T>
  void operator()(const char* /*name*/, T& /*value*/, const Field& /*field*/) {}
};
template <typename T>
concept Described = requires(NoVisitor& visit, T& value) { describe(visit, value); };

}  // namespace temper::recipe
