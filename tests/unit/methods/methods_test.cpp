#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <utility>

#include "support/compare.h"
#include "support/reference_nets.h"
#include "temper/attacks/pgd.h"
#include "temper/core/random_tensor.h"
#include "temper/methods/catalog.h"
#include "temper/methods/robust_loss.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

using testing_support::difference;

at::Tensor random_logits(std::uint8_t layer) {
  return normal_tensor({.seed = 6, .layer = layer}, at::arange(5), {4}, at::kDouble) * 3;
}

// Central differences of a scalar function, element by element.
at::Tensor numeric_gradient(const std::function<at::Tensor(const at::Tensor&)>& function,
                            const at::Tensor& at) {
  constexpr double kStep = 1e-6;
  at::Tensor gradient = at::zeros({at.numel()}, at::kDouble);
  for (std::int64_t i = 0; i < at.numel(); ++i) {
    at::Tensor shift = at::zeros({at.numel()}, at::kDouble);
    shift[i] = kStep;
    gradient[i] =
        (function(at + shift.view_as(at)) - function(at - shift.view_as(at))) / (2 * kStep);
  }
  return gradient.view_as(at);
}

TEST(RobustLosses, GradientsEqualFiniteDifferencesInBothArguments) {
  const at::Tensor labels = at::tensor({0L, 1L, 2L, 3L, 1L});
  const TradesLoss trades(6, 0.1);
  const MixedLoss mixed(0.5, 0.1);
  const MartLoss mart(5, 0.1);
  for (const RobustLoss* loss : std::initializer_list<const RobustLoss*>{&trades, &mixed, &mart}) {
    at::Tensor clean = random_logits(0).requires_grad_(true);
    at::Tensor adversarial = random_logits(1).requires_grad_(true);
    const auto total = [&](const at::Tensor& c, const at::Tensor& a) {
      return loss->compute(c, c, a, labels).total;
    };
    const auto gradients = torch::autograd::grad({total(clean, adversarial)}, {clean, adversarial});
    const at::NoGradGuard no_grad;
    EXPECT_EQ(
        difference(gradients[0],
                   numeric_gradient([&](const at::Tensor& c) { return total(c, adversarial); },
                                    clean.detach()),
                   1e-7),
        "");
    EXPECT_EQ(difference(gradients[1],
                         numeric_gradient([&](const at::Tensor& a) { return total(clean, a); },
                                          adversarial.detach()),
                         1e-7),
              "");
  }
}

TEST(RobustLosses, AdversarialLossIsTheSmoothedCrossEntropyOfAdversarialLogits) {
  const at::Tensor labels = at::tensor({0L, 1L, 2L, 3L, 1L});
  const AdversarialLoss loss(0.1);
  at::Tensor adversarial = random_logits(1).requires_grad_(true);
  const auto total = [&](const at::Tensor& a) { return loss.compute({}, {}, a, labels).total; };
  const auto gradient = torch::autograd::grad({total(adversarial)}, {adversarial}).front();
  const at::NoGradGuard no_grad;
  EXPECT_EQ(difference(gradient, numeric_gradient(total, adversarial.detach()), 1e-7), "");
  const at::Tensor log_p = at::log_softmax(adversarial, 1);
  const at::Tensor by_hand =
      -(0.9 * log_p.gather(1, labels.unsqueeze(1)).sum() + 0.1 / 4 * log_p.sum());
  EXPECT_EQ(difference(total(adversarial), by_hand, 1e-12), "");
  EXPECT_FALSE(loss.compute({}, {}, adversarial, labels).clean.defined());
}

TEST(RobustLosses, MartTakesCertainPredictionsWithoutNanInFloat) {
  const at::Tensor extreme = at::tensor({200.0, 0.0, -200.0}, at::kFloat).view({1, 3});
  for (const double sign : {1.0, -1.0}) {
    at::Tensor clean = extreme.clone().requires_grad_(true);
    at::Tensor adversarial = (extreme * sign).requires_grad_(true);
    const LossTerms terms =
        MartLoss(6, 0).compute(clean, clean, adversarial, at::zeros({1}, at::kLong));
    EXPECT_TRUE(terms.total.isfinite().item<bool>());
    for (const at::Tensor& gradient : torch::autograd::grad({terms.total}, {clean, adversarial})) {
      EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    }
  }
}

// Samples without a label count in the divergence alone.
TEST(RobustLosses, TradesLeavesSamplesWithoutLabelOutOfTheCrossEntropy) {
  const at::Tensor labels = at::tensor({0L, -1L, 2L, -1L, 1L});
  const at::Tensor known = at::tensor({0L, 2L, 4L});
  const at::Tensor clean = random_logits(0);
  const at::Tensor adversarial = random_logits(1);
  for (const double smoothing : {0.0, 0.1}) {
    const TradesLoss trades(6, smoothing);
    const LossTerms terms = trades.compute(clean, clean, adversarial, labels);
    EXPECT_EQ(difference(terms.clean,
                         cross_entropy_sum(clean.index_select(0, known),
                                           labels.index_select(0, known), smoothing),
                         1e-12),
              "");
    const at::Tensor all = at::zeros({5}, at::kLong);
    EXPECT_EQ(difference(terms.robust, trades.compute(clean, clean, adversarial, all).robust, 0),
              "");
  }
}

// Labels as probabilities give the same as labels where they are certain.
TEST(RobustLosses, MartOfCertainTargetsIsThatOfLabels) {
  const at::Tensor labels = at::tensor({0L, 1L, 2L, 3L, 1L});
  const at::Tensor targets = at::one_hot(labels, 4).to(at::kDouble);
  const MartLoss mart(5, 0.1);
  const at::Tensor clean = random_logits(0);
  const at::Tensor adversarial = random_logits(1);
  EXPECT_EQ(difference(mart.compute(clean, clean, adversarial, targets).total,
                       mart.compute(clean, clean, adversarial, labels).total, 1e-12),
            "");
}

TEST(RobustLosses, TradesTakesZeroProbabilitiesWithoutNan) {
  const at::Tensor extreme =
      at::tensor({1e4, 0.0, -1e4}, at::TensorOptions(at::kDouble)).view({1, 3});
  const LossTerms terms =
      TradesLoss(6, 0).compute(extreme, extreme, -extreme, at::zeros({1}, at::kLong));
  EXPECT_TRUE(terms.total.isfinite().item<bool>());
  EXPECT_GT(terms.robust.item<double>(), 1e3);
}

struct Fixture {
  std::shared_ptr<Classifier> model = testing_support::make_reference_net("cnn");
  ImageBatch batch{uniform_tensor({.seed = 2}, at::arange(6), {3, 8, 8}, at::kDouble),
                   at::arange(6), at::arange(6)};

  Fixture() {
    initialize(*model, 1);
    model->to(at::kDouble);
  }
  StepOutput run(TrainingMethod& method, std::uint32_t epoch = 0) {
    for (at::Tensor& parameter : model->parameters()) {
      parameter.mutable_grad() = at::Tensor();
    }
    StepContext context{.model = *model, .epoch = epoch, .backward = [](const at::Tensor& loss) {
                          loss.backward();
                        }};
    return method.compute_gradients(context, batch);
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> out;
    for (const at::Tensor& parameter : model->parameters()) {
      out.push_back(parameter.grad().clone());
    }
    return out;
  }
};

std::shared_ptr<const Attack> attack(double epsilon = 0.05) {
  return std::make_shared<PgdAttack>(ThreatModel{.epsilon = epsilon},
                                     PgdOptions{.steps = 3, .step_size = 0.02});
}

TEST(Methods, TradesWithoutRobustTermEqualsStandardTraining) {
  Fixture fixture;
  const auto methods = built_in_methods();
  const auto standard = methods.make("standard", nullptr, {});
  const StepOutput expected = fixture.run(*standard);
  const auto expected_gradients = fixture.gradients();
  for (const char* name : {"trades", "mixed"}) {
    const auto method = methods.make(name, attack(), {.beta = 0});
    const StepOutput output = fixture.run(*method);
    EXPECT_EQ(difference(output.loss, expected.loss, 1e-12), "");
    for (std::size_t i = 0; i < expected_gradients.size(); ++i) {
      EXPECT_EQ(difference(fixture.gradients()[i], expected_gradients[i], 1e-12), "") << name;
    }
    EXPECT_TRUE(output.adversarial_images.defined());
  }
}

TEST(Methods, StartEpochTrainsOnCleanImagesBefore) {
  Fixture fixture;
  const auto method = built_in_methods().make("trades", attack(), {.start_epoch = 2});
  EXPECT_FALSE(fixture.run(*method, 1).adversarial_images.defined());
  EXPECT_TRUE(fixture.run(*method, 2).adversarial_images.defined());
}

TEST(Methods, TheAttackRaisesTheRobustLoss) {
  Fixture fixture;
  const auto weak = built_in_methods().make("trades", attack(0.001), {});
  const auto strong = built_in_methods().make("trades", attack(0.1), {});
  const double small = fixture.run(*weak).robust_loss.item<double>();
  EXPECT_GT(fixture.run(*strong).robust_loss.item<double>(), 10 * small);
}

TEST(Methods, OnlyTheCleanForwardUpdatesStatisticsByDefault) {
  Fixture fixture;
  const auto method = built_in_methods().make("trades", attack(), {});
  static_cast<void>(fixture.run(*method));
  PendingStatistics(*fixture.model).commit(at::ones({}, at::kBool));
  EXPECT_EQ(fixture.model->named_buffers()["bn1.num_batches_tracked"].item<std::int64_t>(), 1);
}

TEST(Methods, PgdAtHasNoCleanForward) {
  Fixture fixture;
  const auto method = built_in_methods().make(
      "pgd_at", attack(), {.statistics = {.adversarial_forward = StatisticsMode::kUpdate}});
  const StepOutput output = fixture.run(*method);
  EXPECT_FALSE(output.clean_loss.defined() || output.clean_correct.defined());
  EXPECT_TRUE(at::equal(output.loss, output.robust_loss));
  EXPECT_TRUE(at::equal(output.predictions, output.adversarial_logits.argmax(1)));
  method->after_update(*fixture.model, at::zeros({}));
  PendingStatistics(*fixture.model).commit(at::ones({}, at::kBool));
  EXPECT_EQ(fixture.model->named_buffers()["bn1.num_batches_tracked"].item<std::int64_t>(), 1);
}

// 3 steps, the attack's loss once more, the outer forward; after the update the clean images.
TEST(Methods, PgdAtInReferenceOrderUpdatesStatisticsInEveryForward) {
  Fixture fixture;
  const auto method =
      built_in_methods().make("pgd_at", attack(),
                              {.reference_order = true,
                               .statistics = {.attack = StatisticsMode::kUpdate,
                                              .adversarial_forward = StatisticsMode::kUpdate}});
  static_cast<void>(fixture.run(*method));
  method->after_update(*fixture.model, at::zeros({}));
  PendingStatistics(*fixture.model).commit(at::ones({}, at::kBool));
  EXPECT_EQ(fixture.model->named_buffers()["bn1.num_batches_tracked"].item<std::int64_t>(), 6);
}

// A stop request must not cut an attack short whose forwards hold collectives: the other ranks
// would wait in them.
TEST(Methods, OnlyAnAttackWithoutCollectivesIsCutShort) {
  for (const StatisticsMode mode : {StatisticsMode::kRunning, StatisticsMode::kBatch}) {
    Fixture fixture;
    const auto method =
        built_in_methods().make("mixed", attack(), {.statistics = {.attack = mode}});
    int asked = 0;
    StepContext context{.model = *fixture.model,
                        .backward = [](const at::Tensor& loss) { loss.backward(); },
                        .stop_requested = [&] { return ++asked > 0; }};
    static_cast<void>(method->compute_gradients(context, fixture.batch));
    EXPECT_EQ(asked > 0, mode == StatisticsMode::kRunning);
  }
}

// One loss over a forward with running statistics and one with batch statistics: the gradient is
// that of the function (frameworks that write buffers between the two get it silently wrong).
TEST(Methods, GradientsOfMixedStatisticsEqualFiniteDifferences) {
  const auto start_only = std::make_shared<PgdAttack>(
      ThreatModel{.epsilon = 0.05}, PgdOptions{.steps = 0, .random_start = RandomStart::kUniform});
  for (const char* name : {"trades", "mixed"}) {
    for (const auto& [clean, adversarial] :
         {std::pair{StatisticsMode::kRunning, StatisticsMode::kUpdate},
          std::pair{StatisticsMode::kUpdate, StatisticsMode::kRunning}}) {
      Fixture fixture;
      const auto method = built_in_methods().make(
          name, start_only,
          {.beta = 2, .statistics = {.clean_forward = clean, .adversarial_forward = adversarial}});
      static_cast<void>(fixture.run(*method));
      const auto gradients = fixture.gradients();
      const auto loss_at = [&](at::Tensor weight, double shift) {
        const at::NoGradGuard no_grad;
        weight.add_(shift);
        StepContext context{.model = *fixture.model, .backward = [](const at::Tensor&) {}};
        const double loss = method->compute_gradients(context, fixture.batch).loss.item<double>();
        PendingStatistics(*fixture.model).drop();
        weight.sub_(shift);
        return loss;
      };
      PendingStatistics(*fixture.model).drop();
      constexpr double kStep = 1e-6;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const at::Tensor entry = fixture.model->parameters()[i].detach().view(-1)[0];
        const double numeric = (loss_at(entry, kStep) - loss_at(entry, -kStep)) / (2 * kStep);
        const double gradient = gradients[i].view(-1)[0].item<double>();
        EXPECT_NEAR(gradient, numeric, 1e-5 * (1 + std::abs(numeric))) << name << " " << i;
      }
    }
  }
}

TEST(Methods, DropoutFollowsTheUpdate) {
  for (const char* name : {"standard", "trades", "pgd_at"}) {
    Fixture fixture;
    fixture.model = testing_support::make_reference_net("dropout");
    initialize(*fixture.model, 1);
    fixture.model->to(at::kDouble);
    const auto method = built_in_methods().make(name, attack(), {});
    const auto loss_of = [&](std::uint32_t update) {
      StepContext context{.model = *fixture.model,
                          .update = update,
                          .backward = [](const at::Tensor& loss) { loss.backward(); }};
      const double loss = method->compute_gradients(context, fixture.batch).loss.item<double>();
      PendingStatistics(*fixture.model).drop();
      return loss;
    };
    const double first = loss_of(0);
    EXPECT_EQ(loss_of(0), first) << name;
    EXPECT_NE(loss_of(1), first) << name;
  }
}

}  // namespace
}  // namespace temper
