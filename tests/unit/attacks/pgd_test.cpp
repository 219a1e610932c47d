#include "temper/attacks/pgd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <limits>

#include "support/reference_nets.h"
#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"
#include "unit/attacks/broken_gradients.h"

namespace temper {
namespace {

// logits = W x + b of flattened images: the best perturbation is known in closed form.
class LinearNet final : public Classifier {
 public:
  LinearNet() : Classifier({}), fc_(register_module("fc", torch::nn::Linear(12, 2))) {
    const at::NoGradGuard no_grad;
    fc_->weight.copy_(normal_tensor({.seed = 4}, at::arange(2), {12}, at::kFloat));
    to(at::kDouble);
  }
  at::Tensor weight() { return fc_->weight.detach(); }

 private:
  at::Tensor logits(const at::Tensor& x) override { return fc_->forward(x.flatten(1)); }
  torch::nn::Linear fc_;
};

at::Tensor images(std::int64_t count, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  // Many pixels at the very edge of the box.
  return (uniform_tensor({.seed = 9}, at::arange(count), shape, dtype) * 1.4 - 0.2).clamp(0, 1);
}

AttackContext context(std::int64_t count) { return {.samples = at::arange(count), .seed = 3}; }

std::shared_ptr<Classifier> reference_net() {
  auto net = testing_support::make_reference_net("cnn");
  net->set_statistics_mode(StatisticsMode::kUpdate);
  return net;
}

struct Setting {
  Norm norm;
  RandomStart start;
};

// A ball that the box cuts.
double epsilon_of(Norm norm) {
  return norm == Norm::kLinf ? 8.0 / 255 : norm == Norm::kL2 ? 0.5 : 5;
}

class PgdAttackTest : public testing::TestWithParam<Setting> {};

TEST_P(PgdAttackTest, StaysInTheBallAndTheBoxInFloat) {
  const auto net = reference_net();
  const at::Tensor clean = images(16, {3, 8, 8});
  const at::Tensor labels = at::arange(16).remainder(10);
  const double epsilon = epsilon_of(GetParam().norm);
  const PgdAttack attack(
      {.norm = GetParam().norm, .epsilon = epsilon},
      {.steps = 5, .step_size = epsilon / 2, .random_start = GetParam().start, .start_scale = 0.1});
  const at::Tensor adversarial = attack.perturb(*net, clean, labels, context(16));
  const double reached =
      perturbation_norm(adversarial - clean, GetParam().norm).max().item<double>();
  const double ulp = std::nextafter(1.0F, 2.0F) - 1.0F;
  EXPECT_LE(reached, epsilon + ulp * (GetParam().norm == Norm::kL1 ? 192 : 1));
  EXPECT_GT(reached, 0.5 * epsilon);
  EXPECT_GE(adversarial.min().item<double>(), 0);
  EXPECT_LE(adversarial.max().item<double>(), 1);
  EXPECT_FALSE(adversarial.requires_grad());
}

// A start that lies outside is no result, whatever its loss.
std::vector<PgdOptions> starts_that_leave_the_ball(double step_size) {
  std::vector<PgdOptions> options;
  for (const bool keep_best : {false, true}) {
    options.push_back({.steps = 3,
                       .step_size = step_size,
                       .random_start = RandomStart::kNormal,
                       .start_scale = 2,
                       .keep_best = keep_best});
    options.push_back(
        {.steps = 3, .step_size = step_size, .start_radius = 20, .keep_best = keep_best});
  }
  return options;
}

INSTANTIATE_TEST_SUITE_P(NormsAndStarts, PgdAttackTest,
                         testing::Values(Setting{Norm::kLinf, RandomStart::kNone},
                                         Setting{Norm::kLinf, RandomStart::kUniform},
                                         Setting{Norm::kLinf, RandomStart::kNormal},
                                         Setting{Norm::kL2, RandomStart::kNone},
                                         Setting{Norm::kL2, RandomStart::kUniform},
                                         Setting{Norm::kL2, RandomStart::kNormal},
                                         Setting{Norm::kL1, RandomStart::kNone},
                                         Setting{Norm::kL1, RandomStart::kUniform},
                                         Setting{Norm::kL1, RandomStart::kNormal}));

// Images of noise, black, white, and of both, for several seeds.
TEST(PgdAttack, StaysInTheBallAndTheBoxForExtremeImagesAndManySeeds) {
  constexpr double kRounding = 192 * 0x1p-24;  // of as many pixels
  const auto net = reference_net();
  const at::Tensor coins = uniform_tensor({.seed = 1}, at::arange(2), {3, 8, 8}, at::kFloat);
  const at::Tensor clean =
      at::cat({at::zeros({1, 3, 8, 8}), at::ones({1, 3, 8, 8}), coins.round(), coins});
  const at::Tensor labels = at::arange(6);
  for (const Norm norm : {Norm::kLinf, Norm::kL2, Norm::kL1}) {
    for (const double scale : {0.01, 1.0, 30.0}) {
      const double epsilon = epsilon_of(norm) * scale;
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        AttackContext with = context(6);
        with.seed = seed;
        std::vector<PgdOptions> all = starts_that_leave_the_ball(epsilon / 100);
        all.push_back({.steps = 3, .step_size = epsilon});
        for (const PgdOptions& options : all) {
          const at::Tensor adversarial = PgdAttack({.norm = norm, .epsilon = epsilon}, options)
                                             .perturb(*net, clean, labels, with);
          EXPECT_LE(perturbation_norm(adversarial - clean, norm).max().item<double>(),
                    epsilon * (1 + 1e-6) + kRounding);
          EXPECT_GE(adversarial.min().item<double>(), 0);
          EXPECT_LE(adversarial.max().item<double>(), 1);
        }
      }
    }
  }
}

TEST(PgdAttack, WithoutProjectionOnlyTheBoxHoldsIt) {
  const auto net = reference_net();
  const at::Tensor clean = images(8, {3, 8, 8}) * 0.6 + 0.2;
  const PgdAttack attack({.epsilon = 0.05},
                         {.steps = 1, .step_size = 0.05, .start_radius = 2, .projects = false});
  const at::Tensor adversarial = attack.perturb(*net, clean, at::arange(8), context(8));
  const double reached = (adversarial - clean).abs().max().item<double>();
  EXPECT_GT(reached, 0.1);
  EXPECT_LE(reached, 0.15 + 1e-6);
}

TEST(PgdAttack, ReachesTheLinearOptimum) {
  LinearNet net;
  const at::Tensor clean = images(6, {3, 2, 2}, at::kDouble) * 0.2 + 0.4;  // far from the box
  const at::Tensor labels = at::arange(6).remainder(2);
  // Cross entropy grows along the difference of the other row and the label's row.
  const at::Tensor direction =
      (net.weight().index_select(0, 1 - labels) - net.weight().index_select(0, labels))
          .view({6, 3, 2, 2});
  const at::Tensor linf =
      fgsm_attack({.norm = Norm::kLinf, .epsilon = 0.1}).perturb(net, clean, labels, context(6));
  EXPECT_TRUE(at::allclose(linf, clean + 0.1 * direction.sign(), 0, 1e-12));
  const PgdAttack l2({.norm = Norm::kL2, .epsilon = 0.1}, {.steps = 60, .step_size = 0.05});
  const at::Tensor expected =
      clean + 0.1 * direction / direction.flatten(1).norm(2, {1}).view({6, 1, 1, 1});
  EXPECT_TRUE(at::allclose(l2.perturb(net, clean, labels, context(6)), expected, 0, 1e-6));
}

// The largest l1 gain: the pixels with the largest weights as far as the box lets them.
TEST(PgdAttack, ReachesTheLinearOptimumInL1) {
  LinearNet net;
  const at::Tensor clean = at::full({2, 3, 2, 2}, 0.5, at::kDouble);
  const at::Tensor labels = at::arange(2);
  const at::Tensor slope =
      net.weight().index_select(0, 1 - labels) - net.weight().index_select(0, labels);
  const double epsilon = 1.25;
  at::Tensor expected = at::zeros({2, 12}, at::kDouble);
  const at::Tensor order = slope.abs().argsort(1, /*descending=*/true);
  for (std::int64_t i = 0; i < 2; ++i) {
    for (const auto& [rank, size] : {std::pair{0, 0.5}, {1, 0.5}, {2, 0.25}}) {
      const at::Tensor place = order[i][rank];
      expected[i].index_fill_(
          0, place, size * slope[i].index_select(0, place.view({1})).sign().item<double>());
    }
  }
  const PgdAttack attack(
      {.norm = Norm::kL1, .epsilon = epsilon},
      {.steps = 20, .step_size = 0.125, .random_start = RandomStart::kNone, .keep_best = true});
  EXPECT_TRUE(at::allclose(attack.perturb(net, clean, labels, context(2)) - clean,
                           expected.view({2, 3, 2, 2}), 0, 1e-12));
}

TEST(PgdAttack, EpsilonZeroGivesTheCleanImagesBitByBit) {
  const auto net = reference_net();
  const at::Tensor clean = images(8, {3, 8, 8});
  const at::Tensor labels = at::zeros({8}, at::kLong);
  for (const Norm norm : {Norm::kLinf, Norm::kL2, Norm::kL1}) {
    const PgdAttack attack({.norm = norm, .epsilon = 0}, {.steps = 3, .step_size = 0.1});
    EXPECT_TRUE(at::equal(attack.perturb(*net, clean, labels, context(8)), clean));
    for (const PgdOptions& options : starts_that_leave_the_ball(0.1)) {
      const PgdAttack far({.norm = norm, .epsilon = 0}, options);
      EXPECT_TRUE(at::equal(far.perturb(*net, clean, labels, context(8)), clean));
    }
    AttackContext warm = context(8);
    warm.epsilon_scale = 0;
    const PgdAttack large({.norm = norm, .epsilon = 1}, {.steps = 3, .step_size = 0.1});
    EXPECT_TRUE(at::equal(large.perturb(*net, clean, labels, warm), clean));
  }
}

TEST(PgdAttack, LeavesNoTraceInTheModel) {
  const auto net = reference_net();
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& buffer : net->buffers()) {
    buffers.push_back(buffer.clone());
  }
  const PgdAttack attack({.epsilon = 0.1}, {.steps = 10, .step_size = 0.02});
  for (const auto statistics : {StatisticsMode::kRunning, StatisticsMode::kBatch}) {
    const at::NoGradGuard no_grad;  // the attack sets its own grad mode
    AttackContext with_mode = context(4);
    with_mode.statistics = statistics;
    with_mode.loss = statistics == StatisticsMode::kRunning ? InnerLoss::kKlDivergence
                                                            : InnerLoss::kCrossEntropy;
    static_cast<void>(
        attack.perturb(*net, images(4, {3, 8, 8}), at::zeros({4}, at::kLong), with_mode));
  }
  PendingStatistics(*net).commit(at::ones({}, at::kBool));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(at::equal(net->buffers()[i], buffers[i]));
  }
  for (const at::Tensor& parameter : net->parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
    EXPECT_TRUE(parameter.requires_grad());
  }
  EXPECT_EQ(net->batch_norms().front()->mode(), StatisticsMode::kUpdate);
}

TEST(PgdAttack, NoiseFollowsTheSampleNotThePlaceInTheBatch) {
  const auto net = reference_net();
  const at::Tensor clean = images(6, {3, 8, 8});
  const at::Tensor labels = at::arange(6);
  const PgdAttack attack({.epsilon = 0.1}, {.steps = 2, .step_size = 0.02});
  AttackContext whole = context(6);
  const at::Tensor together = attack.perturb(*net, clean, labels, whole);
  AttackContext part = context(6);
  part.samples = at::tensor({4L, 5L});
  const at::Tensor alone =
      attack.perturb(*net, clean.narrow(0, 4, 2), labels.narrow(0, 4, 2), part);
  EXPECT_TRUE(at::allclose(alone, together.narrow(0, 4, 2), 0, 1e-6));
  whole.index = 1;
  EXPECT_FALSE(at::allclose(attack.perturb(*net, clean, labels, whole), together, 0, 1e-3));
}

TEST(PgdAttack, TakesAnEmptyBatch) {
  const auto net = reference_net();
  for (const Norm norm : {Norm::kLinf, Norm::kL2, Norm::kL1}) {
    const PgdAttack attack({.norm = norm, .epsilon = 0.1}, {.steps = 2});
    const at::Tensor none =
        attack.perturb(*net, at::zeros({0, 3, 8, 8}), at::zeros({0}, at::kLong), context(0));
    EXPECT_EQ(none.sizes(), (at::IntArrayRef{0, 3, 8, 8}));
  }
}

at::Tensor losses_of(Classifier& net, const at::Tensor& images, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  const StatisticsModeGuard mode(net, StatisticsMode::kRunning);
  return at::cross_entropy_loss(net.forward(images), labels, {}, at::Reduction::None);
}

std::shared_ptr<Classifier> random_net() {
  auto net = testing_support::make_reference_net("cnn");
  initialize(*net, 5);
  net->to(at::kDouble);
  return net;
}

class PgdChoices : public testing::TestWithParam<Norm> {
 protected:
  std::shared_ptr<Classifier> net = random_net();
  at::Tensor clean = images(12, {3, 8, 8}, at::kDouble);
  at::Tensor labels = at::arange(12).remainder(10);
  ThreatModel threat_model{.norm = GetParam(),
                           .epsilon = GetParam() == Norm::kLinf ? 0.1
                                      : GetParam() == Norm::kL2 ? 0.5
                                                                : 8};

  at::Tensor attack(const PgdOptions& options, const AttackContext& with = context(12)) {
    return PgdAttack(threat_model, options).perturb(*net, clean, labels, with);
  }
  // Large steps, so that the loss goes up and down.
  [[nodiscard]] PgdOptions restless(int steps) const {
    return {.steps = steps, .step_size = 1.5 * threat_model.epsilon};
  }
  at::Tensor losses(const at::Tensor& adversarial) { return losses_of(*net, adversarial, labels); }
};

TEST_P(PgdChoices, TheBestLossNeverFallsWithMoreSteps) {
  at::Tensor before = losses(attack({.steps = 1, .step_size = 0, .keep_best = true}));  // the start
  bool the_last_is_worse = false;
  for (int steps = 1; steps <= 8; ++steps) {
    PgdOptions options = restless(steps);
    const at::Tensor last = losses(attack(options));
    options.keep_best = true;
    const at::Tensor best = losses(attack(options));
    EXPECT_TRUE(best.ge(before).all().item<bool>()) << steps;
    EXPECT_TRUE(best.ge(last).all().item<bool>()) << steps;
    the_last_is_worse = the_last_is_worse || best.gt(last).any().item<bool>();
    before = best;
  }
  EXPECT_TRUE(the_last_is_worse) << "the steps are too small for this test";
}

// Twice the steps of half the length, in the smaller ball.
TEST_P(PgdChoices, ScaledAttacksAreThoseOfTheScaledOptions) {
  AttackContext scaled = context(12);
  scaled.epsilon_scale = 0.5;
  scaled.steps_factor = 2;
  const PgdOptions options{.steps = 3, .step_size = 0.4 * threat_model.epsilon};
  const ThreatModel half{threat_model.norm, threat_model.epsilon / 2};
  const at::Tensor expected = PgdAttack(half, {.steps = 6, .step_size = 0.1 * threat_model.epsilon})
                                  .perturb(*net, clean, labels, context(12));
  EXPECT_TRUE(at::allclose(attack(options, scaled), expected, 0, 1e-15));
}

TEST_P(PgdChoices, RestartsKeepTheLargestLossOfEachSample) {
  at::Tensor before = losses(attack(restless(3)));
  bool improves = false;
  for (const int restarts : {2, 3, 5}) {
    PgdOptions options = restless(3);
    options.restarts = restarts;
    const at::Tensor adversarial = attack(options);
    EXPECT_LE(perturbation_norm(adversarial - clean, GetParam()).max().item<double>(),
              threat_model.epsilon + 1e-12);
    const at::Tensor now = losses(adversarial);
    EXPECT_TRUE(now.ge(before).all().item<bool>()) << restarts;
    improves = improves || now.gt(before).any().item<bool>();
    before = now;
  }
  EXPECT_TRUE(improves) << "restarts are the same run again";
}

TEST_P(PgdChoices, ATargetedAttackDescendsOnTheCrossEntropyWithItsTarget) {
  const StatisticsModeGuard mode(*net, StatisticsMode::kRunning);
  const at::Tensor logits = net->forward(clean).detach();
  const at::Tensor least =
      logits.scatter(1, labels.unsqueeze(1), std::numeric_limits<double>::infinity()).argmin(1);
  const at::Tensor adversarial = attack({.steps = 10,
                                         .step_size = GetParam() == Norm::kL1 ? 2.0 : 0.05,
                                         .target = AttackTarget::kLeastLikely});
  EXPECT_TRUE(
      losses_of(*net, adversarial, least).lt(losses_of(*net, clean, least)).all().item<bool>());
  EXPECT_FALSE(least.eq(labels).any().item<bool>());
}

// With two classes the other one is the only target, so both targets and the untargeted attack take
// the same way.
TEST_P(PgdChoices, WithTwoClassesAllTargetsAreTheOtherClass) {
  LinearNet two;
  const at::Tensor few = images(6, {3, 2, 2}, at::kDouble);
  const at::Tensor binary = at::arange(6).remainder(2);
  const auto run = [&](AttackTarget target) {
    return PgdAttack(threat_model, {.steps = 4, .step_size = 0.05, .target = target})
        .perturb(two, few, binary, context(6));
  };
  EXPECT_TRUE(at::allclose(run(AttackTarget::kRandom), run(AttackTarget::kNone), 0, 1e-7));
  EXPECT_TRUE(at::allclose(run(AttackTarget::kLeastLikely), run(AttackTarget::kNone), 0, 1e-7));
}

INSTANTIATE_TEST_SUITE_P(Norms, PgdChoices, testing::Values(Norm::kLinf, Norm::kL2, Norm::kL1));

TEST(PgdAttack, CountsZeroAndNonfiniteGradientsAndStaysFinite) {
  BrokenGradients net;
  const at::Tensor clean = images(12, {3, 2, 2}, at::kDouble) * 0.5 + 0.25;
  const at::Tensor labels = at::zeros({12}, at::kLong);
  for (const Norm norm : {Norm::kLinf, Norm::kL2}) {
    GradientCounts counts;
    AttackContext with = context(12);
    with.gradient_counts = &counts;
    const PgdAttack attack({.norm = norm, .epsilon = 0.1},
                           {.steps = 3, .step_size = 0.05, .random_start = RandomStart::kNone});
    const at::Tensor adversarial = attack.perturb(net, clean, labels, with);
    EXPECT_EQ(counts.zero.item<std::int64_t>(), 6);
    EXPECT_EQ(counts.nonfinite.item<std::int64_t>(), 3);
    EXPECT_TRUE(adversarial.isfinite().all().item<bool>());
    const at::Tensor moved = perturbation_norm(adversarial - clean, norm).gt(1e-3);
    for (std::int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(moved[i].item<bool>(), i % 4 == 3) << i;
    }
  }
}

class ConstantNet final : public Classifier {
 public:
  ConstantNet() : Classifier({}) {}

 private:
  at::Tensor logits(const at::Tensor& x) override { return x.flatten(1).narrow(1, 0, 2) * 0; }
};

// The official l2 code takes noise where the gradient is zero.
TEST(PgdAttack, L2StepsOfTradesReplaceAZeroGradient) {
  ConstantNet net;
  const at::Tensor clean = images(4, {3, 8, 8}, at::kDouble);
  AttackContext with = context(4);
  with.loss = InnerLoss::kKlDivergence;
  PgdOptions options{.steps = 1, .step_size = 0.05, .random_start = RandomStart::kNone};
  const auto run = [&] {
    return PgdAttack({.norm = Norm::kL2, .epsilon = 0.5}, options)
        .perturb(net, clean, at::arange(4), with);
  };
  EXPECT_TRUE(at::equal(run(), clean));
  options.trades_l2_steps = true;
  const at::Tensor noise = normal_tensor({.seed = 3, .purpose = Purpose::kAttackStart, .layer = 3},
                                         at::arange(4), {3, 8, 8}, at::kDouble);
  const at::Tensor clipped = (clean + 0.05 * noise).clamp(0, 1) - clean;
  const at::Tensor expected = clean + at::renorm(clipped, 2, 0, 0.5);
  EXPECT_TRUE(at::allclose(run(), expected, 0, 1e-12));
}

}  // namespace
}  // namespace temper
