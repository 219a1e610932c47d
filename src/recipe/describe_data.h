#pragma once
// The section `data`; see describe.h.

#include <string>
#include <string_view>
#include <vector>

#include "recipe/field.h"
#include "temper/recipe/config.h"

namespace temper::recipe {

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

}  // namespace temper::recipe
