#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "temper/core/error.h"

namespace temper {
namespace {

void check_range(const char* name, double value, double min, double max) {
  if (!(value >= min && value <= max)) {
    throw ConfigError(concat(name, " is ", value, ", expected ", min, " to ", max));
  }
}

void check_integer(const char* name, int value, int min, int max) {
  if (value < min || value > max) {
    throw ConfigError(concat(name, " is ", value, ", expected ", min, " to ", max));
  }
}

double between(double low, double high, SampleRandom& random) {
  return low + (high - low) * random.uniform();
}

// What magnitude an operation has in the last bin; the first has 0, or `first` of those that grow
// downwards.
struct Range {
  double first = 0;
  double last = 0;
  bool is_signed = false;
};

// torch.linspace in single precision: from both ends to the middle.
double level(const Range& range, int bin, int bins) {
  const auto first = static_cast<float>(range.first);
  const auto last = static_cast<float>(range.last);
  const float step = (last - first) / static_cast<float>(bins - 1);
  return bin < bins / 2 ? first + step * static_cast<float>(bin)
                        : last - step * static_cast<float>(bins - bin - 1);
}

// Bits that stay: 8 in the first bin, 8 - `lost` in the last.
int posterize_bits(int bin, int bins, int lost) {
  const auto width = static_cast<float>((bins - 1) / static_cast<double>(lost));
  return 8 - static_cast<int>(std::nearbyint(static_cast<float>(bin) / width));
}

// The extent of an augmentation space; `translation` along x and y, in pixels.
struct Space {
  double shear = 0;
  double translate_x = 0;
  double translate_y = 0;
  double rotate = 0;
  double enhance = 0;
  int lost_bits = 0;
};

Range range_of(const Space& space, AugmentKind kind) {
  switch (kind) {
    case AugmentKind::kShearX:
    case AugmentKind::kShearY:
      return {0, space.shear, true};
    case AugmentKind::kTranslateX:
      return {0, space.translate_x, true};
    case AugmentKind::kTranslateY:
      return {0, space.translate_y, true};
    case AugmentKind::kRotate:
      return {0, space.rotate, true};
    case AugmentKind::kBrightness:
    case AugmentKind::kColor:
    case AugmentKind::kContrast:
    case AugmentKind::kSharpness:
      return {0, space.enhance, true};
    case AugmentKind::kSolarize:
      return {255, 0, false};
    default:
      return {};
  }
}

Augmentation draw_sign(const Space& space, AugmentKind kind, int bin, int bins,
                       SampleRandom& random) {
  if (kind == AugmentKind::kPosterize) {
    return {kind, static_cast<double>(posterize_bits(bin, bins, space.lost_bits))};
  }
  const Range range = range_of(space, kind);
  const double magnitude = level(range, bin, bins);
  return {kind, range.is_signed && random.below(2) == 1 ? -magnitude : magnitude};
}

AugmentKind draw_kind(SampleRandom& random) {
  return static_cast<AugmentKind>(random.below(kAugmentKinds));
}

// torchvision.transforms.functional.affine for a shear about the corner; the way over degrees is
// its, for equal rounding.
std::array<double, 6> shear_matrix(double along_x, double along_y) {
  const auto angle = [](double slope) {
    return std::atan(slope) * (180.0 / M_PI) * (M_PI / 180.0);
  };
  const double x = angle(along_x);
  const double y = angle(along_y);
  const double m4 = std::cos(-y) / std::cos(y);
  const double m1 = std::cos(-y) * std::tan(x) / std::cos(y);
  const double m3 = -std::sin(-y) / std::cos(y);
  const double m0 = -std::sin(-y) * std::tan(x) / std::cos(y) + 1.0;
  return {m0, m1, 0, m3, m4, 0};
}

void flip_rows(const Pixels& pixels) {
  const std::ptrdiff_t stride = std::ptrdiff_t{pixels.width} * pixels.channels;
  for (int y = 0; y < pixels.height / 2; ++y) {
    const auto top = pixels.bytes.begin() + y * stride;
    std::swap_ranges(top, top + stride, pixels.bytes.begin() + (pixels.height - 1 - y) * stride);
  }
}

}  // namespace

void check(const VerticalFlip& step) {
  check_range("vertical_flip: probability", step.probability, 0, 1);
}
void check(const ColorJitter& step) {
  check_range("color_jitter: brightness", step.brightness, 0, 1e3);
  check_range("color_jitter: contrast", step.contrast, 0, 1e3);
  check_range("color_jitter: saturation", step.saturation, 0, 1e3);
  check_range("color_jitter: hue", step.hue, 0, 0.5);
}
void check(const RandomGrayscale& step) {
  check_range("random_grayscale: probability", step.probability, 0, 1);
}
void check(const RandAugment& step) {
  check_integer("rand_augment: operations", step.operations, 0, 1000);
  check_integer("rand_augment: bins", step.bins, 2, 1000);
  check_integer("rand_augment: magnitude", step.magnitude, 0, step.bins - 1);
  check_integer("rand_augment: fill", step.fill, 0, 255);
}
void check(const TrivialAugmentWide& step) {
  check_integer("trivial_augment_wide: bins", step.bins, 2, 1000);
  check_integer("trivial_augment_wide: fill", step.fill, 0, 255);
}
void check(const RandomErasing& step) {
  check_range("random_erasing: probability", step.probability, 0, 1);
  if (!(step.scale_min >= 0 && step.scale_min <= step.scale_max && step.scale_max <= 1)) {
    throw ConfigError(concat("random_erasing: scale is ", step.scale_min, " to ", step.scale_max,
                             ", expected 0 <= minimum <= maximum <= 1"));
  }
  if (!(step.ratio_min > 0 && step.ratio_min <= step.ratio_max && std::isfinite(step.ratio_max))) {
    throw ConfigError(concat("random_erasing: ratio is ", step.ratio_min, " to ", step.ratio_max,
                             ", expected 0 < minimum <= maximum"));
  }
}

std::vector<Jitter> choose(const ColorJitter& step, SampleRandom& random) {
  std::array order = {JitterKind::kBrightness, JitterKind::kContrast, JitterKind::kSaturation,
                      JitterKind::kHue};
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(i + 1)]);
  }
  const std::array extents = {step.brightness, step.contrast, step.saturation, step.hue};
  std::vector<Jitter> jitters;
  for (const JitterKind kind : order) {
    const double extent = extents[static_cast<std::size_t>(kind)];
    if (extent == 0) {
      continue;
    }
    const double middle = kind == JitterKind::kHue ? 0 : 1;
    const double low = kind == JitterKind::kHue ? -extent : std::max(0.0, middle - extent);
    jitters.push_back({kind, between(low, middle + extent, random)});
  }
  return jitters;
}

std::string_view name_of(AugmentKind kind) {
  constexpr std::array<std::string_view, kAugmentKinds> kNames = {
      "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
      "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};
  return kNames[static_cast<std::size_t>(kind)];
}

Augmentation choose(const RandAugment& step, int height, int width, SampleRandom& random) {
  const Space space{.shear = 0.3,
                    .translate_x = 150.0 / 331.0 * width,
                    .translate_y = 150.0 / 331.0 * height,
                    .rotate = 30,
                    .enhance = 0.9,
                    .lost_bits = 4};
  return draw_sign(space, draw_kind(random), step.magnitude, step.bins, random);
}

Augmentation choose(const TrivialAugmentWide& step, SampleRandom& random) {
  const Space space{.shear = 0.99,
                    .translate_x = 32,
                    .translate_y = 32,
                    .rotate = 135,
                    .enhance = 0.99,
                    .lost_bits = 6};
  const AugmentKind kind = draw_kind(random);
  const auto bin = static_cast<int>(random.below(static_cast<std::uint64_t>(step.bins)));
  return draw_sign(space, kind, bin, step.bins, random);
}

std::optional<Rectangle> choose(const RandomErasing& step, int height, int width,
                                SampleRandom& random) {
  if (random.uniform() >= step.probability) {
    return std::nullopt;
  }
  const double area = static_cast<double>(height) * width;
  const double log_min = std::log(step.ratio_min);
  const double log_max = std::log(step.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * between(step.scale_min, step.scale_max, random);
    const double ratio = std::exp(between(log_min, log_max, random));
    const double box_height = std::nearbyint(std::sqrt(target * ratio));
    const double box_width = std::nearbyint(std::sqrt(target / ratio));
    if (!(box_height < height && box_width < width)) {
      continue;
    }
    Rectangle box{0, 0, static_cast<int>(box_width), static_cast<int>(box_height)};
    box.y = static_cast<int>(random.below(static_cast<std::uint64_t>(height - box.height) + 1));
    box.x = static_cast<int>(random.below(static_cast<std::uint64_t>(width - box.width) + 1));
    return box;
  }
  return std::nullopt;
}

void apply(const Jitter& jitter, const Pixels& pixels) {
  switch (jitter.kind) {
    case JitterKind::kBrightness:
      return adjust_brightness(pixels, jitter.amount);
    case JitterKind::kContrast:
      return adjust_contrast(pixels, jitter.amount);
    case JitterKind::kSaturation:
      return adjust_saturation(pixels, jitter.amount);
    case JitterKind::kHue:
      return adjust_hue(pixels, jitter.amount);
  }
}

void apply(const Augmentation& augmentation, const Pixels& pixels, int fill) {
  const double magnitude = augmentation.magnitude;
  const auto outside = static_cast<std::uint8_t>(fill);
  switch (augmentation.kind) {
    case AugmentKind::kIdentity:
      return;
    case AugmentKind::kShearX:
      return transform_affine(pixels, shear_matrix(magnitude, 0), outside);
    case AugmentKind::kShearY:
      return transform_affine(pixels, shear_matrix(0, magnitude), outside);
    case AugmentKind::kTranslateX:
      return transform_affine(pixels, {1, 0, -std::trunc(magnitude), 0, 1, 0}, outside);
    case AugmentKind::kTranslateY:
      return transform_affine(pixels, {1, 0, 0, 0, 1, -std::trunc(magnitude)}, outside);
    case AugmentKind::kRotate:
      return rotate(pixels, magnitude, outside);
    case AugmentKind::kBrightness:
      return adjust_brightness(pixels, 1 + magnitude);
    case AugmentKind::kColor:
      return adjust_saturation(pixels, 1 + magnitude);
    case AugmentKind::kContrast:
      return adjust_contrast(pixels, 1 + magnitude);
    case AugmentKind::kSharpness:
      return adjust_sharpness(pixels, 1 + magnitude);
    case AugmentKind::kPosterize:
      return posterize(pixels, static_cast<int>(magnitude));
    case AugmentKind::kSolarize:
      return solarize(pixels, magnitude);
    case AugmentKind::kAutoContrast:
      return auto_contrast(pixels);
    case AugmentKind::kEqualize:
      return equalize(pixels);
  }
}

void apply_in_place(const VerticalFlip& step, const Pixels& pixels, SampleRandom& random) {
  if (random.uniform() < step.probability) {
    flip_rows(pixels);
  }
}

void apply_in_place(const ColorJitter& step, const Pixels& pixels, SampleRandom& random) {
  for (const Jitter& jitter : choose(step, random)) {
    apply(jitter, pixels);
  }
}

void apply_in_place(const RandomGrayscale& step, const Pixels& pixels, SampleRandom& random) {
  if (random.uniform() < step.probability) {
    make_gray(pixels);
  }
}

void apply_in_place(const RandAugment& step, const Pixels& pixels, SampleRandom& random) {
  for (int i = 0; i < step.operations; ++i) {
    apply(choose(step, pixels.height, pixels.width, random), pixels, step.fill);
  }
}

void apply_in_place(const TrivialAugmentWide& step, const Pixels& pixels, SampleRandom& random) {
  apply(choose(step, random), pixels, step.fill);
}

void apply_in_place(const RandomErasing& step, const Pixels& pixels, SampleRandom& random) {
  const std::optional<Rectangle> box = choose(step, pixels.height, pixels.width, random);
  for (int y = 0; box && y < box->height; ++y) {
    const auto row = static_cast<std::size_t>(box->y + y) * static_cast<std::size_t>(pixels.width);
    const auto channels = static_cast<std::size_t>(pixels.channels);
    const auto part = pixels.bytes.subspan((row + static_cast<std::size_t>(box->x)) * channels,
                                           static_cast<std::size_t>(box->width) * channels);
    std::generate(part.begin(), part.end(), [&] {
      return step.noise ? static_cast<std::uint8_t>(random.word() >> 24) : std::uint8_t{0};
    });
  }
}

Pixels pixels_of(Image& image) {
  Pixels pixels{{}, image.height, image.width, image.channels};
  if (auto* floats = std::get_if<std::vector<float>>(&image.pixels)) {
    pixels.bytes = {reinterpret_cast<std::uint8_t*>(floats->data()),
                    floats->size() * sizeof(float)};
    pixels.channels *= static_cast<int>(sizeof(float));
  } else {
    pixels.bytes = std::get<std::vector<std::uint8_t>>(image.pixels);
  }
  return pixels;
}

std::size_t apply_in_place(std::span<const TransformStep> steps, const Pixels& pixels,
                           SampleRandom& random) {
  const auto apply_one = [&]<typename Step>(const Step& step) {
    if constexpr (WorksInPlace<Step>) {
      require(pixels.channels <= 3 || needs_bytes(step).empty(), needs_bytes(step), " on floats");
      apply_in_place(step, pixels, random);
      return true;
    } else {
      return false;
    }
  };
  std::size_t done = 0;
  while (done < steps.size() && std::visit(apply_one, steps[done])) {
    ++done;
  }
  return done;
}

}  // namespace temper
