#include "temper/attacks/pgd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "support/reference_nets.h"
#include "temper/core/random_tensor.h"

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

class PgdAttackTest : public testing::TestWithParam<Setting> {};

TEST_P(PgdAttackTest, StaysInTheBallAndTheBoxInFloat) {
  const auto net = reference_net();
  const at::Tensor clean = images(16, {3, 8, 8});
  const at::Tensor labels = at::arange(16).remainder(10);
  const double epsilon = GetParam().norm == Norm::kLinf ? 8.0 / 255 : 0.5;
  const PgdAttack attack(
      {.norm = GetParam().norm, .epsilon = epsilon},
      {.steps = 5, .step_size = epsilon / 2, .random_start = GetParam().start, .start_scale = 0.1});
  const at::Tensor adversarial = attack.perturb(*net, clean, labels, context(16));
  const double reached =
      perturbation_norm(adversarial - clean, GetParam().norm).max().item<double>();
  const double ulp = std::nextafter(1.0F, 2.0F) - 1.0F;
  EXPECT_LE(reached, epsilon + ulp);
  EXPECT_GT(reached, 0.5 * epsilon);
  EXPECT_GE(adversarial.min().item<double>(), 0);
  EXPECT_LE(adversarial.max().item<double>(), 1);
  EXPECT_FALSE(adversarial.requires_grad());
}

INSTANTIATE_TEST_SUITE_P(NormsAndStarts, PgdAttackTest,
                         testing::Values(Setting{Norm::kLinf, RandomStart::kNone},
                                         Setting{Norm::kLinf, RandomStart::kUniform},
                                         Setting{Norm::kLinf, RandomStart::kNormal},
                                         Setting{Norm::kL2, RandomStart::kNone},
                                         Setting{Norm::kL2, RandomStart::kUniform},
                                         Setting{Norm::kL2, RandomStart::kNormal}));

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

TEST(PgdAttack, EpsilonZeroGivesTheCleanImagesBitByBit) {
  const auto net = reference_net();
  const at::Tensor clean = images(8, {3, 8, 8});
  for (const Norm norm : {Norm::kLinf, Norm::kL2}) {
    const PgdAttack attack({.norm = norm, .epsilon = 0}, {.steps = 3, .step_size = 0.1});
    EXPECT_TRUE(
        at::equal(attack.perturb(*net, clean, at::zeros({8}, at::kLong), context(8)), clean));
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
  for (const Norm norm : {Norm::kLinf, Norm::kL2}) {
    const PgdAttack attack({.norm = norm, .epsilon = 0.1}, {.steps = 2});
    const at::Tensor none =
        attack.perturb(*net, at::zeros({0, 3, 8, 8}), at::zeros({0}, at::kLong), context(0));
    EXPECT_EQ(none.sizes(), (at::IntArrayRef{0, 3, 8, 8}));
  }
}

}  // namespace
}  // namespace temper
