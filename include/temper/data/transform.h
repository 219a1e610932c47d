#pragma once
// Image transforms with the semantics of torchvision's transforms (v1) on PIL images. Bytes give
// the pixels of Pillow 13: bilinear and always antialiased, separable, 22-bit fixed-point
// coefficients, 8-bit intermediates. Floats are resized with the same weights in float arithmetic
// and are not rounded.

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "temper/core/random.h"
#include "temper/data/image.h"

namespace temper {

// A crop of random area and aspect ratio, resized to size x size. After ten misfits: the largest
// centered crop whose ratio is in range.
struct RandomResizedCrop {
  int size = 224;
  double scale_min = 0.08;  // area of the crop relative to the image's
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width / height
  double ratio_max = 4.0 / 3.0;
};

// The shorter side becomes `size`; the longer keeps the ratio, rounded down.
struct Resize {
  int size = 256;
};

// size x size from the middle; a smaller image is padded with 0 first.
struct CenterCrop {
  int size = 224;
};

// size x size from a random place after `padding` zeros on each side.
struct RandomCrop {
  int size = 32;
  int padding = 0;
};

struct HorizontalFlip {
  double probability = 0.5;
};

struct VerticalFlip {
  double probability = 0.5;
};

// Brightness, contrast, saturation and hue changed in random order. The first three are factors
// uniform in [max(0, 1 - x), 1 + x], hue turns by a part of the circle uniform in [-x, x], at most
// 0.5. What is 0 is left out.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
};

struct RandomGrayscale {
  double probability = 0.1;
};

// RandAugment (Cubuk et al., 2019): `operations` of fourteen operations in a row, all of strength
// `magnitude` of `bins`. Nearest-neighbour sampling; `fill` is what comes in from outside.
struct RandAugment {
  int operations = 2;
  int magnitude = 9;  // below bins
  int bins = 31;
  int fill = 0;  // level 0 ... 255
};

// TrivialAugment (Mueller and Hutter, 2021), wide ranges: one operation of random strength.
struct TrivialAugmentWide {
  int bins = 31;
  int fill = 0;  // level 0 ... 255
};

// A random rectangle (Zhong et al., 2017) becomes black, or noise uniform over all levels.
struct RandomErasing {
  double probability = 0.5;
  double scale_min = 0.02;  // area of the rectangle relative to the image's
  double scale_max = 0.33;
  double ratio_min = 0.3;  // height / width
  double ratio_max = 3.3;
  bool noise = false;
};

using TransformStep =
    std::variant<RandomResizedCrop, Resize, CenterCrop, RandomCrop, HorizontalFlip, VerticalFlip,
                 ColorJitter, RandomGrayscale, RandAugment, TrivialAugmentWide, RandomErasing>;

// A fixed list of steps. Immutable; threads may share it.
class Transform {
 public:
  Transform() = default;
  // Throws ConfigError for a parameter out of range.
  explicit Transform(std::vector<TransformStep> steps);

  // Throws ConfigError for a step that is defined on bytes alone when `type` is another.
  void check_element_type(ElementType type) const;

  // Throws DataError when the image does not fit a step.
  [[nodiscard]] Image apply(Image image, SampleRandom& random) const;

  [[nodiscard]] std::span<const TransformStep> steps() const { return steps_; }

 private:
  std::vector<TransformStep> steps_;
};

// The steps of a preset. imagenet: RandomResizedCrop and flip; evaluation: Resize(image_size * 256
// / 224) and CenterCrop. cifar: RandomCrop with padding image_size / 8 and flip; evaluation:
// nothing. mnist, none: nothing. Throws ConfigError for an unknown name.
[[nodiscard]] std::vector<TransformStep> preset_transform(std::string_view name, int image_size,
                                                          bool training);

// The names that preset_transform knows.
[[nodiscard]] std::vector<std::string> transform_presets();

}  // namespace temper
