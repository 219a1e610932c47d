// Auto-PGD beside its reference numbers (tests/golden): what holds for any input.

#include "temper/attacks/apgd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/reference_nets.h"
#include "temper/attacks/pgd.h"
#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"
#include "unit/attacks/broken_gradients.h"

namespace temper {
namespace {

class Apgd : public testing::TestWithParam<Norm> {
 protected:
  Apgd() {
    initialize(*net, 5);
    net->to(at::kDouble);
  }
  at::Tensor losses(const at::Tensor& images) {
    const at::NoGradGuard no_grad;
    const StatisticsModeGuard mode(*net, StatisticsMode::kRunning);
    return at::cross_entropy_loss(net->forward(images), labels, {}, at::Reduction::None);
  }
  at::Tensor attack(const ApgdOptions& options, const AttackContext& context) {
    return ApgdAttack(threat_model, options).perturb(*net, clean, labels, context);
  }

  std::shared_ptr<Classifier> net = testing_support::make_reference_net("cnn");
  at::Tensor clean =
      (uniform_tensor({.seed = 9}, at::arange(12), {3, 8, 8}, at::kDouble) * 1.4 - 0.2).clamp(0, 1);
  at::Tensor labels = at::arange(12).remainder(10);
  ThreatModel threat_model{.norm = GetParam(), .epsilon = GetParam() == Norm::kLinf ? 0.1 : 0.5};
  AttackContext keys{.samples = at::arange(12), .seed = 3};
};

TEST_P(Apgd, StaysInTheBallAndTheBoxAndNeverBelowTheStart) {
  const at::Tensor before = losses(clean);
  for (const int steps : {0, 1, 2, 10, 30}) {
    const at::Tensor adversarial = attack({.steps = steps}, keys);
    EXPECT_LE(perturbation_norm(adversarial - clean, GetParam()).max().item<double>(),
              threat_model.epsilon + 1e-12);
    EXPECT_GE(adversarial.min().item<double>(), 0);
    EXPECT_LE(adversarial.max().item<double>(), 1);
    EXPECT_TRUE(losses(adversarial).ge(before).all().item<bool>()) << steps;
    EXPECT_EQ(at::equal(adversarial, clean), steps == 0);
  }
}

TEST_P(Apgd, IsAtLeastAsStrongAsOneStepOfPgd) {
  const at::Tensor one = PgdAttack(threat_model, {.steps = 1,
                                                  .step_size = 2 * threat_model.epsilon,
                                                  .random_start = RandomStart::kNone})
                             .perturb(*net, clean, labels, keys);
  EXPECT_TRUE(losses(attack({.steps = 1}, keys)).ge(losses(one) - 1e-12).all().item<bool>());
}

TEST_P(Apgd, ARandomStartFollowsTheSample) {
  const at::Tensor whole = attack({.steps = 3, .random_start = true}, keys);
  AttackContext part = keys;
  part.samples = at::tensor({4L, 5L});
  const at::Tensor alone = ApgdAttack(threat_model, {.steps = 3, .random_start = true})
                               .perturb(*net, clean.narrow(0, 4, 2), labels.narrow(0, 4, 2), part);
  EXPECT_TRUE(at::allclose(alone, whole.narrow(0, 4, 2), 0, 1e-12));
  EXPECT_FALSE(at::equal(whole, attack({.steps = 3}, keys)));
}

TEST_P(Apgd, TakesAnEmptyBatchAndCountsGradients) {
  GradientCounts counts;
  AttackContext with{.samples = at::arange(0), .gradient_counts = &counts};
  const at::Tensor none =
      ApgdAttack(threat_model, {.steps = 2, .random_start = true})
          .perturb(*net, at::zeros({0, 3, 8, 8}, at::kDouble), at::zeros({0}, at::kLong), with);
  EXPECT_EQ(none.sizes(), (at::IntArrayRef{0, 3, 8, 8}));
  EXPECT_EQ(counts.zero.item<std::int64_t>(), 0);
}

TEST_P(Apgd, LeavesWhatHasNoGradientWhereItIs) {
  BrokenGradients broken;
  GradientCounts counts;
  const at::Tensor inner = clean * 0.5 + 0.25;
  AttackContext with = keys;
  with.gradient_counts = &counts;
  const at::Tensor adversarial = ApgdAttack(threat_model, {.steps = 3})
                                     .perturb(broken, inner, at::ones({12}, at::kLong), with);
  EXPECT_EQ(counts.nonfinite.item<std::int64_t>(), 3);
  EXPECT_TRUE(adversarial.isfinite().all().item<bool>());
  const at::Tensor moved = perturbation_norm(adversarial - inner, GetParam()).gt(1e-3);
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(moved[i].item<bool>(), i % 4 == 3) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, Apgd, testing::Values(Norm::kLinf, Norm::kL2));

}  // namespace
}  // namespace temper
