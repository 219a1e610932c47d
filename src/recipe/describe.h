#pragma once
// What the keys of a configuration are called, may hold and mean: the one description behind
// parsing, range checks, suggestions, --print-config and docs/configuration.md. A visitor is called
// as visitor(name, field, description) for each key of a struct, in the order of the file.

#include "recipe/describe_data.h"
#include "recipe/describe_method.h"
#include "recipe/field.h"
#include "temper/recipe/config.h"

namespace temper::recipe {

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
                     "wideresnet34_10_silu", "wideresnet70_16_silu", "wide_cnn", "digits_cnn",
                     "mnist_cnn", "small_cnn"}});
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
        {.help = "What a loss, gradient or batch-norm statistic that is not finite does; one "
                 "decision of all ranks.",
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
        {.help = "How many samples, spread evenly over the data.", .min = 1, .absent = "all"});
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
