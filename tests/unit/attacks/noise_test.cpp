// The random start of an attack follows from the seed, the purpose, the update and the sample
// alone, and is spread as it should be.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "temper/attacks/pgd.h"

namespace temper {
namespace {

constexpr double kEpsilon = 0.25;

// Its gradient is zero everywhere, so that only the random start moves an image.
class FlatNet final : public Classifier {
 public:
  FlatNet() : Classifier({}) {}

 private:
  at::Tensor logits(const at::Tensor& x) override { return x.flatten(1).narrow(1, 0, 2) * 0; }
};

struct Start {
  Norm norm = Norm::kLinf;
  RandomStart random_start = RandomStart::kUniform;
};

std::vector<Start> starts() {
  return {{Norm::kLinf, RandomStart::kUniform},
          {Norm::kLinf, RandomStart::kNormal},
          {Norm::kL2, RandomStart::kUniform}};
}

// The noise of some samples, in the middle of the box.
at::Tensor noise(const Start& start, const at::Tensor& samples, const AttackContext& keys = {}) {
  FlatNet net;
  const PgdAttack attack(
      {.norm = start.norm, .epsilon = kEpsilon},
      {.steps = 1, .step_size = 1e-6, .random_start = start.random_start, .start_scale = 0.01});
  const at::Tensor images = at::full({samples.numel(), 3, 8, 8}, 0.5, at::kDouble);
  AttackContext context = keys;
  context.samples = samples;
  return attack.perturb(net, images, at::zeros({samples.numel()}, at::kLong), context) - images;
}

std::vector<double> row(const at::Tensor& noise, std::int64_t i) {
  const at::Tensor flat = noise[i].contiguous();
  const double* data = flat.const_data_ptr<double>();
  return {data, data + flat.numel()};
}

TEST(AttackNoise, IsTheSameForAnyWorldSizeAndPlaceInTheBatch) {
  const at::Tensor samples = at::arange(37).mul(17).remainder(37);
  const AttackContext keys{.seed = 5, .index = 7};
  for (const Start& start : starts()) {
    const at::Tensor whole = noise(start, samples, keys);
    for (std::int64_t world = 1; world <= 5; ++world) {
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const at::Tensor own = noise(start, samples.slice(0, rank, std::nullopt, world), keys);
        EXPECT_TRUE(at::allclose(own, whole.slice(0, rank, std::nullopt, world), 0, 1e-15))
            << "rank " << rank << " of " << world;
      }
    }
    const at::Tensor reversed = noise(start, samples.flip(0), keys).flip(0);
    EXPECT_TRUE(at::allclose(reversed, whole, 0, 1e-15));
  }
}

TEST(AttackNoise, DiffersBetweenSamplesUpdatesSeedsAndPurposes) {
  const at::Tensor samples = at::arange(9);
  for (const Start& start : starts()) {
    std::set<std::vector<double>> distinct;
    std::size_t drawn = 0;
    for (const std::uint64_t seed : {0U, 1U}) {
      for (const Purpose purpose : {Purpose::kAttackStart, Purpose::kEvaluation}) {
        for (const std::uint32_t update : {0U, 1U, 65536U}) {
          const at::Tensor drawn_noise =
              noise(start, samples, {.seed = seed, .purpose = purpose, .index = update});
          for (std::int64_t i = 0; i < samples.numel(); ++i, ++drawn) {
            distinct.insert(row(drawn_noise, i));
          }
        }
      }
    }
    EXPECT_EQ(distinct.size(), drawn);
  }
}

// Bounds of five standard deviations; the seed is fixed.
TEST(AttackNoise, IsSpreadAsItsNameSays) {
  const at::Tensor samples = at::arange(300);
  const at::Tensor uniform = noise({Norm::kLinf, RandomStart::kUniform}, samples).view(-1);
  const double count = static_cast<double>(uniform.numel());
  EXPECT_LE(uniform.abs().max().item<double>(), kEpsilon);
  EXPECT_GE(uniform.abs().max().item<double>(), 0.999 * kEpsilon);
  EXPECT_NEAR(uniform.mean().item<double>(), 0, 5 * kEpsilon / std::sqrt(3 * count));
  EXPECT_NEAR(uniform.square().mean().item<double>() / (kEpsilon * kEpsilon), 1.0 / 3,
              5 * std::sqrt(4.0 / 45 / count));

  const at::Tensor normal = noise({Norm::kLinf, RandomStart::kNormal}, samples).view(-1) / 0.01;
  EXPECT_NEAR(normal.mean().item<double>(), 0, 5 / std::sqrt(count));
  EXPECT_NEAR(normal.square().mean().item<double>(), 1, 5 * std::sqrt(2 / count));

  // A uniform direction and a uniform length.
  const at::Tensor ball = noise({Norm::kL2, RandomStart::kUniform}, samples).flatten(1);
  const at::Tensor lengths = ball.norm(2, 1) / kEpsilon;
  EXPECT_LE(lengths.max().item<double>(), 1 + 1e-12);
  EXPECT_NEAR(lengths.mean().item<double>(), 0.5, 5 / std::sqrt(12.0 * 300));
  const at::Tensor directions = ball / ball.norm(2, 1, true);
  EXPECT_NEAR(directions.sum(0).norm().item<double>() / std::sqrt(300.0), 1, 0.25);
}

}  // namespace
}  // namespace temper
