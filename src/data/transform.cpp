#include "temper/data/transform.h"

#include <algorithm>
#include <cmath>

#include "data/augment.h"
#include "data/transform_plan.h"
#include "temper/core/error.h"

namespace temper {
namespace {

void check_size(const char* step, int size) {
  if (size < 1 || size > 65536) {
    throw ConfigError(concat(step, ": size is ", size, ", expected 1 to 65536"));
  }
}

void check(const RandomResizedCrop& step) {
  check_size("random_resized_crop", step.size);
  if (!(step.scale_min > 0 && step.scale_min <= step.scale_max && step.scale_max <= 1)) {
    throw ConfigError(concat("random_resized_crop: scale is ", step.scale_min, " to ",
                             step.scale_max, ", expected 0 < minimum <= maximum <= 1"));
  }
  if (!(step.ratio_min > 0 && step.ratio_min <= step.ratio_max && std::isfinite(step.ratio_max))) {
    throw ConfigError(concat("random_resized_crop: ratio is ", step.ratio_min, " to ",
                             step.ratio_max, ", expected 0 < minimum <= maximum"));
  }
}
void check(const Resize& step) { check_size("resize", step.size); }
void check(const CenterCrop& step) { check_size("center_crop", step.size); }
void check(const RandomCrop& step) {
  check_size("random_crop", step.size);
  if (step.padding < 0 || step.padding > 65536) {
    throw ConfigError(concat("random_crop: padding is ", step.padding, ", expected 0 to 65536"));
  }
}
void check(const HorizontalFlip& step) {
  if (!(step.probability >= 0 && step.probability <= 1)) {
    throw ConfigError(
        concat("horizontal_flip: probability is ", step.probability, ", expected 0 to 1"));
  }
}

}  // namespace

Transform::Transform(std::vector<TransformStep> steps) : steps_(std::move(steps)) {
  for (const TransformStep& step : steps_) {
    std::visit([](const auto& options) { check(options); }, step);
  }
}

void Transform::check_element_type(ElementType type) const {
  for (const TransformStep& step : steps_) {
    const std::string_view name =
        std::visit([](const auto& options) { return needs_bytes(options); }, step);
    if (type == ElementType::kFloat32 && !name.empty()) {
      throw ConfigError(concat("the transform step ", name,
                               " is defined on 8-bit images, but the data set holds floats; remove "
                               "the step or store the images as uint8"));
    }
  }
}

Image Transform::apply(Image image, SampleRandom& random) const {
  return apply_steps(steps_, std::move(image), random);
}

std::vector<std::string> transform_presets() { return {"imagenet", "cifar", "mnist", "none"}; }

std::vector<TransformStep> preset_transform(std::string_view name, int image_size, bool training) {
  if (name == "imagenet") {
    if (training) {
      return {RandomResizedCrop{.size = image_size}, HorizontalFlip{}};
    }
    const auto shorter_side = static_cast<int>(std::lround(image_size * 256.0 / 224.0));
    return {Resize{shorter_side}, CenterCrop{image_size}};
  }
  if (name == "cifar") {
    if (training) {
      return {RandomCrop{.size = image_size, .padding = image_size / 8}, HorizontalFlip{}};
    }
    return {};
  }
  const std::vector<std::string> known = transform_presets();
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    return {};
  }
  const std::string suggestion = closest_match(name, known);
  throw ConfigError(concat("unknown transform preset '", name, "'; ",
                           suggestion.empty() ? concat("known: ", join(known, ", "))
                                              : concat("did you mean '", suggestion, "'?")));
}

}  // namespace temper
