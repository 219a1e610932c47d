// Parameters and geometry of the transforms; interop.pixels compares pixels with Pillow's.

#include "temper/data/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/transform_plan.h"
#include "temper/core/error.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SampleRandom random_of(std::uint32_t sample) {
  return {RandomStream{.seed = 3, .purpose = Purpose::kAugmentation}, sample};
}

Image run(std::vector<TransformStep> steps, Image image, std::uint32_t sample = 0) {
  SampleRandom random = random_of(sample);
  return Transform(std::move(steps)).apply(std::move(image), random);
}

Image row(std::vector<std::uint8_t> pixels) {
  const int width = static_cast<int>(pixels.size());
  return Image{1, width, 1, std::move(pixels)};
}

TEST(RandomResizedCrop, CropsLieInsideWithAreaAndRatioInRange) {
  const RandomResizedCrop step;
  double area = 0, log_ratio = 0, left = 0, top = 0;
  constexpr int kCrops = 20000;
  for (std::uint32_t i = 0; i < kCrops; ++i) {
    SampleRandom random = random_of(i);
    const Rectangle crop = choose_crop(step, 500, 400, random);
    ASSERT_GE(crop.x, 0);
    ASSERT_GE(crop.y, 0);
    ASSERT_LE(crop.x + crop.width, 500);
    ASSERT_LE(crop.y + crop.height, 400);
    const double ratio = static_cast<double>(crop.width) / crop.height;
    ASSERT_GT(ratio, 0.73);
    ASSERT_LT(ratio, 1.36);
    area += crop.width * crop.height / 200000.0;
    log_ratio += std::log(ratio);
    left += crop.x / 500.0;
    top += crop.y / 400.0;
  }
  // The means of 40,000 draws of torchvision's get_params: crops that do not fit are drawn again,
  // which favours small and wide ones.
  EXPECT_NEAR(area / kCrops, 0.4538, 0.007);
  EXPECT_NEAR(log_ratio / kCrops, 0.0284, 0.006);
  EXPECT_NEAR(left / kCrops, 0.2022, 0.006);
  EXPECT_NEAR(top / kCrops, 0.1423, 0.006);
}

TEST(RandomResizedCrop, FallsBackToTheCentralCrop) {
  const RandomResizedCrop step;
  SampleRandom random = random_of(0);
  const Rectangle wide = choose_crop(step, 5000, 3, random);
  EXPECT_EQ(wide.height, 3);
  EXPECT_EQ(wide.width, 4);
  EXPECT_EQ(wide.x, 2498);
  const Rectangle tall = choose_crop(step, 3, 5000, random);
  EXPECT_EQ(tall.width, 3);
  EXPECT_EQ(tall.height, 4);
  EXPECT_EQ(tall.y, 2498);
}

TEST(CenterCrop, RoundsHalfToEvenAndPadsWithZeros) {
  EXPECT_EQ(center_offset(257, 224), 16);
  EXPECT_EQ(center_offset(259, 224), 18);
  EXPECT_EQ(center_offset(256, 224), 16);
  EXPECT_EQ(center_offset(3, 8), -2);
  const Image image = run({CenterCrop{4}}, row({1, 2, 3}));
  EXPECT_THAT(image.bytes(), ElementsAre(0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Resize, LongerSideIsCutOff) {
  const Image image = run({Resize{10}}, pattern_image(7, 15, 3));
  EXPECT_EQ(image.height, 10);
  EXPECT_EQ(image.width, 21);  // 10 * 15 / 7 = 21.4
  const Image tall = run({Resize{10}}, pattern_image(19, 7, 1));
  EXPECT_EQ(tall.width, 10);
  EXPECT_EQ(tall.height, 27);  // 27.1
}

TEST(Resize, OfAThinPictureMakesOnlyWhatTheCropKeeps) {
  const Image image = run({Resize{256}, CenterCrop{224}}, pattern_image(500'000, 1, 1));
  EXPECT_EQ(image.height, 224);
  EXPECT_EQ(image.width, 224);
  EXPECT_THROW((void)run({Resize{65536}}, pattern_image(5000, 1, 1)), DataError);
}

TEST(Resize, FloatsAreInterpolatedWithoutRounding) {
  const Image ramp{1, 2, 1, std::vector<float>{0.0F, 1.0F}};
  const Image image = run({Resize{2}}, ramp);
  EXPECT_THAT(image.floats(), ElementsAre(0.0F, 0.25F, 0.75F, 1.0F, 0.0F, 0.25F, 0.75F, 1.0F));
}

TEST(RandomCrop, EveryPlaceOccursAndThePaddingIsZero) {
  std::set<int> seen;
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    const Image image = run({RandomCrop{.size = 1, .padding = 1}}, row({5, 6}), sample);
    seen.insert(image.bytes().at(0));
  }
  EXPECT_THAT(seen, ElementsAre(0, 5, 6));
  EXPECT_EQ(run({RandomCrop{.size = 3}}, pattern_image(3, 3, 3)), pattern_image(3, 3, 3));
}

TEST(RandomCrop, LargerThanThePaddedImageIsAnError) {
  try {
    (void)run({RandomCrop{.size = 8, .padding = 2}}, row({5, 6}));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("8 x 8 does not fit into the image of 2 x 1"));
  }
}

TEST(HorizontalFlip, MirrorsPixelsNotChannelsInHalfOfTheSamples) {
  Image image{1, 3, 3, std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_THAT(run({HorizontalFlip{1}}, image).bytes(), ElementsAre(7, 8, 9, 4, 5, 6, 1, 2, 3));
  EXPECT_EQ(run({HorizontalFlip{0}}, image), image);
  int flipped = 0;
  for (std::uint32_t sample = 0; sample < 1000; ++sample) {
    flipped += run({HorizontalFlip{}}, image, sample) == image ? 0 : 1;
  }
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(Transform, SameSampleSamePixels) {
  const std::vector<TransformStep> steps = preset_transform("imagenet", 16, true);
  const Image image = pattern_image(40, 50, 3);
  EXPECT_EQ(run(steps, image, 7), run(steps, image, 7));
  EXPECT_NE(run(steps, image, 7), run(steps, image, 8));
}

TEST(Transform, ParametersOutOfRangeAreConfigurationErrors) {
  const auto refused = [](TransformStep step) { EXPECT_THROW(Transform({step}), ConfigError); };
  refused(Resize{0});
  refused(CenterCrop{-3});
  refused(RandomCrop{.size = 4, .padding = -1});
  refused(HorizontalFlip{1.5});
  refused(HorizontalFlip{std::nan("")});
  refused(RandomResizedCrop{.scale_min = 0});
  refused(RandomResizedCrop{.scale_max = 1.1});
  refused(RandomResizedCrop{.ratio_min = 2});
}

TEST(PresetTransform, KnownNames) {
  const auto evaluation = preset_transform("imagenet", 224, false);
  ASSERT_EQ(evaluation.size(), 2U);
  EXPECT_EQ(std::get<Resize>(evaluation[0]).size, 256);
  EXPECT_EQ(std::get<CenterCrop>(evaluation[1]).size, 224);
  EXPECT_EQ(std::get<Resize>(preset_transform("imagenet", 64, false)[0]).size, 73);
  const auto cifar = preset_transform("cifar", 32, true);
  EXPECT_EQ(std::get<RandomCrop>(cifar.at(0)).size, 32);
  EXPECT_EQ(std::get<RandomCrop>(cifar.at(0)).padding, 4);
  EXPECT_TRUE(std::holds_alternative<HorizontalFlip>(cifar.at(1)));
  EXPECT_TRUE(preset_transform("cifar", 32, false).empty());
  EXPECT_TRUE(preset_transform("none", 8, true).empty());
  EXPECT_TRUE(preset_transform("mnist", 28, true).empty());
}

TEST(PresetTransform, UnknownNameSuggestsTheClosest) {
  try {
    (void)preset_transform("imagnet", 224, true);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'imagenet'?"));
  }
}

}  // namespace
}  // namespace temper
