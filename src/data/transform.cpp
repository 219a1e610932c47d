#include "temper/data/transform.h"

#include <algorithm>
#include <cmath>

#include "data/codec.h"
#include "data/transform_geometry.h"
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

// A square cut out of the image, zero where it reaches beyond.
Image cut_square(const Image& image, int left, int top, int size) {
  Image out{size, size, image.channels, {}};
  const int x_begin = std::max(0, -left);
  const int x_end = std::min(size, image.width - left);
  const auto channels = static_cast<std::ptrdiff_t>(image.channels);
  std::visit(
      [&](const auto& pixels) {
        std::decay_t<decltype(pixels)> result(out.element_count());
        for (int y = std::max(0, -top); y < std::min(size, image.height - top); ++y) {
          const std::ptrdiff_t from =
              (std::ptrdiff_t{y + top} * image.width + x_begin + left) * channels;
          const std::ptrdiff_t to = (std::ptrdiff_t{y} * size + x_begin) * channels;
          std::copy_n(pixels.begin() + from, std::max(0, x_end - x_begin) * channels,
                      result.begin() + to);
        }
        out.pixels = std::move(result);
      },
      image.pixels);
  return out;
}

void flip(Image& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto width = static_cast<std::size_t>(image.width);
  std::visit(
      [&](auto& pixels) {
        for (std::size_t row = 0; row < pixels.size(); row += width * channels) {
          for (std::size_t x = 0; x < width / 2; ++x) {
            auto* left = pixels.data() + row + x * channels;
            auto* right = pixels.data() + row + (width - 1 - x) * channels;
            std::swap_ranges(left, left + channels, right);
          }
        }
      },
      image.pixels);
}

Image apply_step(const RandomResizedCrop& step, Image image, SampleRandom& random) {
  const Rectangle crop = choose_crop(step, image.width, image.height, random);
  return resize_crop(image, crop, step.size, step.size, {0, 0, step.size, step.size});
}

struct Size {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

Size resized_size(const Image& image, int size) {
  const std::int64_t width = image.width;
  const std::int64_t height = image.height;
  return width <= height ? Size{size, size * height / width} : Size{size * width / height, size};
}

Image resize(const Image& image, const Size& size, const Rectangle& window) {
  require(size.width <= INT32_MAX && size.height <= INT32_MAX, "resized image is too large");
  return resize_crop(image, {0, 0, image.width, image.height}, static_cast<int>(size.width),
                     static_cast<int>(size.height), window);
}

Image apply_step(const Resize& step, Image image, SampleRandom&) {
  const Size size = resized_size(image, step.size);
  check_image_size(static_cast<std::uint64_t>(size.width), static_cast<std::uint64_t>(size.height));
  return resize(image, size, {0, 0, static_cast<int>(size.width), static_cast<int>(size.height)});
}

Image apply_step(const CenterCrop& step, Image image, SampleRandom&) {
  return cut_square(image, center_offset(image.width, step.size),
                    center_offset(image.height, step.size), step.size);
}

Image apply_step(const RandomCrop& step, Image image, SampleRandom& random) {
  const int room_x = image.width + 2 * step.padding - step.size;
  const int room_y = image.height + 2 * step.padding - step.size;
  if (room_x < 0 || room_y < 0) {
    throw DataError(concat("random crop of ", step.size, " x ", step.size,
                           " does not fit into the image of ", image.width, " x ", image.height,
                           " pixels with padding ", step.padding));
  }
  if (room_x == 0 && room_y == 0) {
    return cut_square(image, -step.padding, -step.padding, step.size);
  }
  const auto top = static_cast<int>(random.below(static_cast<std::uint64_t>(room_y) + 1));
  const auto left = static_cast<int>(random.below(static_cast<std::uint64_t>(room_x) + 1));
  return cut_square(image, left - step.padding, top - step.padding, step.size);
}

Image apply_step(const HorizontalFlip& step, Image image, SampleRandom& random) {
  if (random.uniform() < step.probability) {
    flip(image);
  }
  return image;
}

// Resize and CenterCrop in one, so that of a long and thin picture only the wanted part is made.
bool can_fuse(const Image& image, const Resize& resize, const CenterCrop& crop) {
  const Size size = resized_size(image, resize.size);
  return size.width >= crop.size && size.height >= crop.size && size.width <= INT32_MAX &&
         size.height <= INT32_MAX;
}

Image resize_and_crop(const Image& image, const Resize& step, const CenterCrop& crop) {
  const Size size = resized_size(image, step.size);
  return resize(image, size,
                {center_offset(static_cast<int>(size.width), crop.size),
                 center_offset(static_cast<int>(size.height), crop.size), crop.size, crop.size});
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

Transform::Transform(std::vector<TransformStep> steps) : steps_(std::move(steps)) {
  for (const TransformStep& step : steps_) {
    std::visit([](const auto& options) { check(options); }, step);
  }
}

Image Transform::apply(Image image, SampleRandom& random) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto* resize_step = std::get_if<Resize>(&steps_[i]);
    const auto* crop_step =
        i + 1 < steps_.size() ? std::get_if<CenterCrop>(&steps_[i + 1]) : nullptr;
    if (resize_step != nullptr && crop_step != nullptr &&
        can_fuse(image, *resize_step, *crop_step)) {
      image = resize_and_crop(image, *resize_step, *crop_step);
      ++i;
      continue;
    }
    image = std::visit([&](const auto& step) { return apply_step(step, std::move(image), random); },
                       steps_[i]);
  }
  return image;
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
