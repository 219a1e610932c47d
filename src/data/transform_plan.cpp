#include "data/transform_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "data/augment.h"
#include "data/codec.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// A plan to which steps are added.
class Planner {
 public:
  Planner(int width, int height) {
    plan_.resampling = {.crop = {0, 0, width, height},
                        .width = width,
                        .height = height,
                        .window = {0, 0, width, height}};
    plan_.width = width;
    plan_.height = height;
  }

  // Each adds a step, or returns false when it cannot.
  bool add(const RandomResizedCrop& step, SampleRandom& random) {
    if (!is_plain_crop()) {
      return false;
    }
    const Rectangle crop = choose_crop(step, plan_.width, plan_.height, random);
    plan_.resampling.window = {plan_.resampling.window.x + crop.x,
                               plan_.resampling.window.y + crop.y, crop.width, crop.height};
    resize_to(step.size, step.size);
    return true;
  }

  bool add(const Resize& step, SampleRandom&) {
    if (!is_plain_crop()) {
      return false;
    }
    const std::int64_t width = plan_.width;
    const std::int64_t height = plan_.height;
    const std::int64_t longer = step.size * std::max(width, height) / std::min(width, height);
    if (longer > INT32_MAX) {
      throw DataError(concat("too large after the resize: a side of ", longer, " pixels"));
    }
    const int size = static_cast<int>(longer);
    width <= height ? resize_to(step.size, size) : resize_to(size, step.size);
    return true;
  }

  bool add(const CenterCrop& step, SampleRandom&) {
    if (plan_.mirrored) {
      return false;
    }
    cut(center_offset(plan_.width, step.size), center_offset(plan_.height, step.size), step.size);
    return true;
  }

  bool add(const RandomCrop& step, SampleRandom& random) {
    if (plan_.mirrored) {
      return false;
    }
    const std::int64_t room_x = std::int64_t{plan_.width} + 2 * step.padding - step.size;
    const std::int64_t room_y = std::int64_t{plan_.height} + 2 * step.padding - step.size;
    if (room_x < 0 || room_y < 0) {
      throw DataError(concat("random crop of ", step.size, " x ", step.size,
                             " does not fit into the image of ", plan_.width, " x ", plan_.height,
                             " pixels with padding ", step.padding));
    }
    int left = 0, top = 0;
    if (room_x != 0 || room_y != 0) {
      top = static_cast<int>(random.below(static_cast<std::uint64_t>(room_y) + 1));
      left = static_cast<int>(random.below(static_cast<std::uint64_t>(room_x) + 1));
    }
    cut(left - step.padding, top - step.padding, step.size);
    return true;
  }

  bool add(const HorizontalFlip& step, SampleRandom& random) {
    plan_.mirrored ^= random.uniform() < step.probability;
    return true;
  }

  // Such a step follows the plan.
  template <WorksInPlace Step>
  bool add(const Step&, SampleRandom&) {
    return false;
  }

  void count_step() { ++plan_.steps; }
  [[nodiscard]] const TransformPlan& plan() const { return plan_; }

 private:
  // Whether the canvas is a part of the picture as it is.
  [[nodiscard]] bool is_plain_crop() const {
    const Resampling& r = plan_.resampling;
    return !plan_.mirrored && !resized_ && r.window.width == plan_.width &&
           r.window.height == plan_.height;
  }

  // The window becomes the crop and is resized.
  void resize_to(int width, int height) {
    plan_.resampling = {.crop = plan_.resampling.window,
                        .width = width,
                        .height = height,
                        .window = {0, 0, width, height}};
    plan_.left = plan_.top = 0;
    plan_.width = width;
    plan_.height = height;
    resized_ = true;
  }

  // The canvas becomes the square at (left, top) of it, zero where that lies outside.
  void cut(int left, int top, int size) {
    Rectangle& window = plan_.resampling.window;
    cut_axis(left, size, window.x, window.width, plan_.left);
    cut_axis(top, size, window.y, window.height, plan_.top);
    plan_.width = plan_.height = size;
  }

  static void cut_axis(int from, int size, int& begin, int& length, int& place) {
    const int visible_begin = std::max(place, from);
    const int visible_end = std::min(place + length, from + size);
    begin += visible_begin - place;
    length = std::max(0, visible_end - visible_begin);
    place = visible_begin - from;
  }

  TransformPlan plan_;
  bool resized_ = false;
};

// The steps of one plan on a picture in memory.
template <typename T>
Image applied(const TransformPlan& plan, const Image& image, ResizeScratch& scratch) {
  Image out{plan.height, plan.width, image.channels, {}};
  std::vector<T> pixels(out.element_count());
  execute(plan, {view_of(image), 0, 0}, scratch, pixels.data());
  out.pixels = std::move(pixels);
  return out;
}

}  // namespace

Rectangle choose_crop(const RandomResizedCrop& step, int width, int height, SampleRandom& random) {
  const double area = static_cast<double>(width) * height;
  const double log_min = std::log(step.ratio_min);
  const double log_max = std::log(step.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target =
        area * (step.scale_min + (step.scale_max - step.scale_min) * random.uniform());
    const double ratio = std::exp(log_min + (log_max - log_min) * random.uniform());
    const double crop_width = std::nearbyint(std::sqrt(target * ratio));
    const double crop_height = std::nearbyint(std::sqrt(target / ratio));
    if (crop_width >= 1 && crop_width <= width && crop_height >= 1 && crop_height <= height) {
      Rectangle crop{0, 0, static_cast<int>(crop_width), static_cast<int>(crop_height)};
      crop.y = static_cast<int>(random.below(static_cast<std::uint64_t>(height - crop.height) + 1));
      crop.x = static_cast<int>(random.below(static_cast<std::uint64_t>(width - crop.width) + 1));
      return crop;
    }
  }
  Rectangle crop{0, 0, width, height};
  const double ratio = static_cast<double>(width) / height;
  if (ratio < step.ratio_min) {
    crop.height = std::clamp(static_cast<int>(std::nearbyint(width / step.ratio_min)), 1, height);
  } else if (ratio > step.ratio_max) {
    crop.width = std::clamp(static_cast<int>(std::nearbyint(height * step.ratio_max)), 1, width);
  }
  crop.x = (width - crop.width) / 2;
  crop.y = (height - crop.height) / 2;
  return crop;
}

TransformPlan plan_transform(std::span<const TransformStep> steps, int width, int height,
                             SampleRandom& random) {
  Planner planner(width, height);
  for (const TransformStep& step : steps) {
    if (!std::visit([&](const auto& options) { return planner.add(options, random); }, step)) {
      break;
    }
    planner.count_step();
  }
  const TransformPlan& plan = planner.plan();
  check_image_size(static_cast<std::uint64_t>(plan.width), static_cast<std::uint64_t>(plan.height));
  return plan;
}

Rectangle needed_region(const TransformPlan& plan) {
  return plan.is_empty() ? Rectangle{} : needed_region(plan.resampling);
}

template <typename T>
void execute(const TransformPlan& plan, const PictureRegion& source, ResizeScratch& scratch,
             T* out) {
  const auto channels = static_cast<std::size_t>(source.pixels.channels);
  const std::size_t stride = static_cast<std::size_t>(plan.width) * channels;
  const Rectangle& window = plan.resampling.window;
  if (window.width < plan.width || window.height < plan.height) {
    std::fill_n(out, stride * static_cast<std::size_t>(plan.height), T{0});
  }
  if (plan.is_empty()) {
    return;
  }
  const int left = plan.mirrored ? plan.width - plan.left - window.width : plan.left;
  resample(
      source, plan.resampling, plan.mirrored, scratch,
      out + static_cast<std::size_t>(plan.top) * stride + static_cast<std::size_t>(left) * channels,
      stride);
}

Image apply_steps(std::span<const TransformStep> steps, Image image, SampleRandom& random) {
  ResizeScratch scratch;
  while (!steps.empty()) {
    steps = steps.subspan(apply_in_place(steps, pixels_of(image), random));
    if (steps.empty()) {
      break;
    }
    const TransformPlan plan = plan_transform(steps, image.width, image.height, random);
    image = image.element_type() == ElementType::kUInt8
                ? applied<std::uint8_t>(plan, image, scratch)
                : applied<float>(plan, image, scratch);
    steps = steps.subspan(plan.steps);
  }
  return image;
}

template void execute(const TransformPlan&, const PictureRegion&, ResizeScratch&, std::uint8_t*);
template void execute(const TransformPlan&, const PictureRegion&, ResizeScratch&, float*);

}  // namespace temper
