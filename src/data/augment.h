#pragma once
// The random steps that change pixels and keep the size: what they draw, apart from the work on the
// pixels, and that work. Distributions are those of torchvision's transforms (v1).

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/color.h"
#include "data/picture.h"
#include "temper/data/transform.h"

namespace temper {

// Throw ConfigError for a parameter out of range.
void check(const VerticalFlip& step);
void check(const ColorJitter& step);
void check(const RandomGrayscale& step);
void check(const RandAugment& step);
void check(const TrivialAugmentWide& step);
void check(const RandomErasing& step);

enum class JitterKind : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };
struct Jitter {
  JitterKind kind = JitterKind::kBrightness;
  double amount = 1;  // factor, or part of a turn
};
// What to do, in order.
[[nodiscard]] std::vector<Jitter> choose(const ColorJitter& step, SampleRandom& random);

enum class AugmentKind : std::uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr int kAugmentKinds = 14;
// torchvision's name of the operation.
[[nodiscard]] std::string_view name_of(AugmentKind kind);

struct Augmentation {
  AugmentKind kind = AugmentKind::kIdentity;
  double magnitude = 0;  // in torchvision's unit of the operation
};
// One of the operations of RandAugment, for an image of this size.
[[nodiscard]] Augmentation choose(const RandAugment& step, int height, int width,
                                  SampleRandom& random);
[[nodiscard]] Augmentation choose(const TrivialAugmentWide& step, SampleRandom& random);

// Nothing when the step leaves the image as it is.
[[nodiscard]] std::optional<Rectangle> choose(const RandomErasing& step, int height, int width,
                                              SampleRandom& random);

void apply(const Jitter& jitter, const Pixels& pixels);
void apply(const Augmentation& augmentation, const Pixels& pixels, int fill);

// Draw and work in place.
void apply_in_place(const VerticalFlip& step, const Pixels& pixels, SampleRandom& random);
void apply_in_place(const ColorJitter& step, const Pixels& pixels, SampleRandom& random);
void apply_in_place(const RandomGrayscale& step, const Pixels& pixels, SampleRandom& random);
void apply_in_place(const RandAugment& step, const Pixels& pixels, SampleRandom& random);
void apply_in_place(const TrivialAugmentWide& step, const Pixels& pixels, SampleRandom& random);
void apply_in_place(const RandomErasing& step, const Pixels& pixels, SampleRandom& random);

// The name of a step that floats cannot go through; empty for the others. Those move whole pixels
// or clear them, and take floats as pixels of four times the channels.
template <typename Step>
std::string_view needs_bytes(const Step&) {
  return "";
}
inline std::string_view needs_bytes(const ColorJitter&) { return "color_jitter"; }
inline std::string_view needs_bytes(const RandomGrayscale&) { return "random_grayscale"; }
inline std::string_view needs_bytes(const RandAugment&) { return "rand_augment"; }
inline std::string_view needs_bytes(const TrivialAugmentWide&) { return "trivial_augment_wide"; }
inline std::string_view needs_bytes(const RandomErasing& step) {
  return step.noise ? "random_erasing with noise" : "";
}

// The steps of this header, told by their type.
template <typename Step>
concept WorksInPlace = requires(const Step& step, const Pixels& pixels, SampleRandom& random) {
  apply_in_place(step, pixels, random);
};

[[nodiscard]] inline bool works_in_place(const TransformStep& step) {
  return std::visit([]<typename Step>(const Step&) { return WorksInPlace<Step>; }, step);
}

// The pixels of an image in memory; floats as above.
[[nodiscard]] Pixels pixels_of(Image& image);

// Applies the steps that work in place at the beginning of the list; returns how many.
[[nodiscard]] std::size_t apply_in_place(std::span<const TransformStep> steps, const Pixels& pixels,
                                         SampleRandom& random);

}  // namespace temper
