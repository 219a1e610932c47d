#include "data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "temper/core/error.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

constexpr int kDraws = 20000;

SampleRandom random_of(std::uint32_t sample) {
  return {RandomStream{.seed = 5, .purpose = Purpose::kAugmentation, .index = 1}, sample};
}

// Five standard deviations of a count with probability `p`; the seed is fixed.
void expect_share(int count, int total, double p, const std::string& what) {
  EXPECT_NEAR(count, total * p, 5 * std::sqrt(total * p * (1 - p)) + 1e-9) << what;
}

// The mean and the spread of a uniform variable, and its ends.
void expect_uniform(const std::vector<double>& values, double low, double high) {
  const auto count = static_cast<double>(values.size());
  const double width = high - low;
  double sum = 0;
  std::array<int, 10> tenths{};
  for (const double value : values) {
    ASSERT_GE(value, low);
    ASSERT_LE(value, high);
    sum += value;
    ++tenths[static_cast<std::size_t>(std::min(9.0, (value - low) / width * 10))];
  }
  EXPECT_NEAR(sum / count, (low + high) / 2, 5 * width / std::sqrt(12 * count));
  for (const int tenth : tenths) {
    expect_share(tenth, static_cast<int>(values.size()), 0.1, "tenth of a range");
  }
}

TEST(ColorJitter, OrdersAreAllEquallyLikelyAndFactorsUniform) {
  const ColorJitter step{0.4, 1.5, 0.2, 0.1};
  std::map<std::vector<int>, int> orders;
  std::map<JitterKind, std::vector<double>> amounts;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    SampleRandom random = random_of(i);
    std::vector<int> order;
    for (const auto& [kind, amount] : choose(step, random)) {
      order.push_back(static_cast<int>(kind));
      amounts[kind].push_back(amount);
    }
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24);
  for (const auto& [order, count] : orders) {
    EXPECT_EQ(order.size(), 4);
    expect_share(count, kDraws, 1.0 / 24, "order");
  }
  expect_uniform(amounts[JitterKind::kBrightness], 0.6, 1.4);
  expect_uniform(amounts[JitterKind::kContrast], 0, 2.5);
  expect_uniform(amounts[JitterKind::kSaturation], 0.8, 1.2);
  expect_uniform(amounts[JitterKind::kHue], -0.1, 0.1);
}

TEST(ColorJitter, LeavesOutWhatIsZero) {
  SampleRandom random = random_of(0);
  const std::vector<Jitter> jitters = choose(ColorJitter{.contrast = 0.5}, random);
  ASSERT_EQ(jitters.size(), 1);
  EXPECT_EQ(jitters[0].kind, JitterKind::kContrast);
  EXPECT_TRUE(choose(ColorJitter{}, random).empty());
}

TEST(TrivialAugmentWide, OperationsStrengthsAndSignsAreUniform) {
  const TrivialAugmentWide step{.bins = 31};
  std::map<AugmentKind, int> kinds;
  std::map<double, int> rotations;
  int negative = 0;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    SampleRandom random = random_of(i);
    const auto [kind, magnitude] = choose(step, random);
    ++kinds[kind];
    if (kind == AugmentKind::kRotate) {
      ++rotations[std::abs(magnitude)];
      negative += std::signbit(magnitude) ? 1 : 0;
    }
  }
  EXPECT_EQ(kinds.size(), kAugmentKinds);
  for (const auto& [kind, count] : kinds) {
    expect_share(count, kDraws, 1.0 / kAugmentKinds, std::string(name_of(kind)));
  }
  EXPECT_EQ(rotations.size(), 31);
  EXPECT_EQ(rotations.rbegin()->first, 135);
  const int turned = kinds[AugmentKind::kRotate];
  for (const auto& [angle, count] : rotations) {
    expect_share(count, turned, 1.0 / 31, concat("rotation by ", angle));
  }
  expect_share(negative, turned, 0.5, "sign");
}

TEST(RandAugment, OperationsAreUniformAndOfOneStrength) {
  const RandAugment step{.magnitude = 30};
  std::map<AugmentKind, std::map<double, int>> seen;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    SampleRandom random = random_of(i);
    const auto [kind, magnitude] = choose(step, 331, 662, random);
    ++seen[kind][magnitude];
  }
  ASSERT_EQ(seen.size(), kAugmentKinds);
  const auto largest = [&](AugmentKind kind) { return seen[kind].rbegin()->first; };
  EXPECT_FLOAT_EQ(static_cast<float>(largest(AugmentKind::kTranslateX)), 300);
  EXPECT_FLOAT_EQ(static_cast<float>(largest(AugmentKind::kTranslateY)), 150);
  EXPECT_EQ(largest(AugmentKind::kRotate), 30);
  EXPECT_EQ(largest(AugmentKind::kPosterize), 4);
  EXPECT_EQ(largest(AugmentKind::kSolarize), 0);
  for (const auto& [kind, magnitudes] : seen) {
    int count = 0;
    for (const auto& [magnitude, times] : magnitudes) {
      count += times;
    }
    expect_share(count, kDraws, 1.0 / kAugmentKinds, std::string(name_of(kind)));
    EXPECT_LE(magnitudes.size(), 2) << name_of(kind);
    if (magnitudes.size() == 2) {
      EXPECT_EQ(magnitudes.begin()->first, -largest(kind)) << name_of(kind);
    }
  }
}

TEST(RandomErasing, AreaAndLogarithmOfTheRatioAreUniformAndPlacesToo) {
  const RandomErasing step{
      .probability = 0.25, .scale_min = 0.05, .scale_max = 0.25, .ratio_min = 0.5, .ratio_max = 2};
  constexpr int kSide = 4000;
  std::vector<double> areas, ratios, lefts, tops;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    SampleRandom random = random_of(i);
    if (const auto box = choose(step, kSide, kSide, random)) {
      areas.push_back(static_cast<double>(box->width) * box->height / (kSide * kSide));
      ratios.push_back(std::log(static_cast<double>(box->height) / box->width));
      lefts.push_back(static_cast<double>(box->x) / (kSide - box->width));
      tops.push_back(static_cast<double>(box->y) / (kSide - box->height));
    }
  }
  expect_share(static_cast<int>(areas.size()), kDraws, 0.25, "erased");
  expect_uniform(areas, 0.0499, 0.2501);
  expect_uniform(ratios, -0.694, 0.694);
  expect_uniform(lefts, 0, 1);
  expect_uniform(tops, 0, 1);
}

TEST(RandomErasing, LeavesAnImageThatNoRectangleFits) {
  const RandomErasing step{.probability = 1, .scale_min = 1, .scale_max = 1};
  for (std::uint32_t i = 0; i < 100; ++i) {
    SampleRandom random = random_of(i);
    EXPECT_FALSE(choose(step, 8, 8, random).has_value());
  }
}

TEST(RandomErasing, NoiseCoversAllLevelsAndNothingElseChanges) {
  const RandomErasing step{.probability = 1, .noise = true};
  Image image = pattern_image(200, 200, 3);
  const Image before = image;
  SampleRandom random = random_of(3);
  SampleRandom same = random_of(3);
  apply_in_place(step, pixels_of(image), random);
  const auto box = choose(step, 200, 200, same);
  ASSERT_TRUE(box.has_value());
  std::array<int, 4> quarters{};
  for (int y = 0; y < 200; ++y) {
    for (int x = 0; x < 200; ++x) {
      for (int c = 0; c < 3; ++c) {
        const auto i = static_cast<std::size_t>((y * 200 + x) * 3 + c);
        if (y >= box->y && y < box->y + box->height && x >= box->x && x < box->x + box->width) {
          ++quarters[image.bytes()[i] / 64];
        } else {
          ASSERT_EQ(image.bytes()[i], before.bytes()[i]);
        }
      }
    }
  }
  for (const int quarter : quarters) {
    expect_share(quarter, box->width * box->height * 3, 0.25, "levels");
  }
}

TEST(Transform, FloatsPassStepsThatMovePixelsAndNoOthers) {
  Image image{2, 1, 1, std::vector<float>{0.25F, 0.75F}};
  const Transform flip({VerticalFlip{1}, RandomErasing{.probability = 0}});
  flip.check_element_type(ElementType::kFloat32);
  SampleRandom random = random_of(0);
  EXPECT_THAT(flip.apply(image, random).floats(), testing::ElementsAre(0.75F, 0.25F));
  for (const TransformStep& step :
       {TransformStep{ColorJitter{}}, TransformStep{RandomGrayscale{}},
        TransformStep{RandAugment{}}, TransformStep{TrivialAugmentWide{}},
        TransformStep{RandomErasing{.noise = true}}}) {
    Transform({step}).check_element_type(ElementType::kUInt8);
    EXPECT_THROW(Transform({step}).check_element_type(ElementType::kFloat32), ConfigError);
  }
}

TEST(Transform, ColourStepsMayStandBetweenGeometricOnes) {
  const Transform transform({VerticalFlip{1}, CenterCrop{4}, VerticalFlip{1}, HorizontalFlip{1},
                             RandomGrayscale{1}, HorizontalFlip{1}});
  SampleRandom random = random_of(0);
  const Image image = transform.apply(pattern_image(6, 6, 3), random);
  SampleRandom same = random_of(0);
  const Image expected =
      Transform({CenterCrop{4}, RandomGrayscale{1}}).apply(pattern_image(6, 6, 3), same);
  EXPECT_EQ(image, expected);
}

TEST(Transform, RefusesParametersOutOfRange) {
  const auto refused = [](const TransformStep& step) {
    EXPECT_THROW(Transform({step}), ConfigError) << step.index();
  };
  refused(VerticalFlip{-0.1});
  refused(ColorJitter{.brightness = -1});
  refused(ColorJitter{.hue = 0.6});
  refused(ColorJitter{.contrast = std::nan("")});
  refused(RandomGrayscale{1.5});
  refused(RandAugment{.magnitude = 31});
  refused(RandAugment{.bins = 1});
  refused(TrivialAugmentWide{.fill = 256});
  refused(RandomErasing{.scale_min = 0.5, .scale_max = 0.4});
  refused(RandomErasing{.ratio_min = 0});
}

}  // namespace
}  // namespace temper
