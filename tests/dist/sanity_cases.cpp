// What holds for every threat model and method: acceptance case 15.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dist/cases.h"
#include "support/small_training.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"

namespace temper::testing_support {
namespace {

constexpr std::int64_t kImages = 6;
constexpr double kRounding = 0x1p-52;  // of a pixel

// Normalisation must not change what epsilon means.
std::shared_ptr<Classifier> digits_net(const Normalization& normalization) {
  auto net = built_in_architectures().make(
      "digits_cnn", {.channels = 1, .image_size = 8, .normalization = normalization});
  initialize(*net, 4);
  net->to(at::kDouble);
  net->set_statistics_mode(StatisticsMode::kRunning);
  return net;
}

// Each rank has other images; many pixels lie on the edge of the box.
at::Tensor images_of(const RankWorld& world) {
  const at::Tensor samples = at::arange(kImages) + world.rank * kImages;
  return (uniform_tensor({.seed = 8}, samples, {1, 8, 8}, at::kDouble) * 1.4 - 0.2).clamp(0, 1);
}

at::Tensor perturb(const PgdAttack& attack, Classifier& net, const RankWorld& world,
                   InnerLoss loss) {
  return attack.perturb(net, images_of(world), at::arange(kImages),
                        {.loss = loss, .samples = at::arange(kImages) + world.rank * kImages});
}

void threat_models_hold(RankWorld& world, InnerLoss loss) {
  const std::vector<Normalization> normalizations{{}, {{0.3}, {0.2}}, {{-2.0}, {7.0}}};
  const at::Tensor clean = images_of(world);
  for (const Normalization& normalization : normalizations) {
    const auto net = digits_net(normalization);
    for (const Norm norm : {Norm::kLinf, Norm::kL2}) {
      const PgdAttack nothing({.norm = norm, .epsilon = 0}, {.steps = 3, .step_size = 0.1});
      const at::Tensor same = perturb(nothing, *net, world, loss);
      require(at::equal(same, clean), "epsilon 0 changed an image");
      require(at::equal(net->forward(same), net->forward(clean)), "epsilon 0 changed a logit");

      const double epsilon = norm == Norm::kLinf ? 8.0 / 255 : 0.5;
      const PgdAttack attack({.norm = norm, .epsilon = epsilon},
                             {.steps = 7, .step_size = epsilon / 3, .restarts = 2});
      const at::Tensor adversarial = perturb(attack, *net, world, loss);
      const double reached = perturbation_norm(adversarial - clean, norm).max().item<double>();
      require(reached <= epsilon + kRounding && reached > epsilon / 2, "moved by ", reached,
              " with epsilon ", epsilon);
      require(adversarial.min().item<double>() >= 0 && adversarial.max().item<double>() <= 1,
              "left the box");
    }
  }
}

bool has_warning(const TrainingResult& result, const std::string& kind) {
  return std::ranges::any_of(result.events, [&](const Event& event) {
    return event.what == "warning" && std::get<std::string>(event.details.at(0).second) == kind;
  });
}

void require_watched(RankWorld& world, const std::string& method) {
  // 60 updates of a net that says the same for every image.
  const TrainingResult dead =
      run_small_training(world.communicator, {.method = method, .net = "dead", .epochs = 30});
  for (const char* kind : {"loss_at_chance", "constant_predictions", "zero_gradients"}) {
    require(has_warning(dead, kind), method, " on a dead net: no warning ", kind);
  }
  for (const TrainRecord& record : dead.records) {
    require(record.zero_gradient_samples == 16, record.zero_gradient_samples,
            " zero gradients over all ranks");
    require(record.nonfinite_gradient_samples == 0, "a gradient was not finite");
  }
  const TrainingResult alive = run_small_training(
      world.communicator,
      {.method = method, .epochs = 20, .compare_replicas_every = {1, Period::Unit::kUpdates}});
  require(std::ranges::none_of(alive.events,
                               [](const Event& event) { return event.what == "warning"; }),
          method, ": a warning about a net that learns");
  for (const TrainRecord& record : alive.records) {
    require(std::isfinite(record.loss) && std::isfinite(record.gradient_norm), "not finite");
    require(record.zero_gradient_samples == 0, "zero gradients of a net that learns");
  }
  require(alive.validation.attacks[0].robust_correct <= alive.validation.clean_correct,
          "robust above clean");
}

class Sanity : public testing::TestWithParam<int> {};

TEST_P(Sanity, ThreatModelsHoldForTheDivergence) {
  expect_ranks_pass("sanity_divergence", GetParam());
}
TEST_P(Sanity, ThreatModelsHoldForTheCrossEntropy) {
  expect_ranks_pass("sanity_cross_entropy", GetParam());
}
TEST_P(Sanity, TradesIsWatched) { expect_ranks_pass("sanity_trades", GetParam()); }
TEST_P(Sanity, MixedIsWatched) { expect_ranks_pass("sanity_mixed", GetParam()); }
TEST_P(Sanity, PgdAtIsWatched) { expect_ranks_pass("sanity_pgd_at", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ranks, Sanity, testing::Values(1, 2, 3));

}  // namespace

void add_sanity_cases(RankCases& cases) {
  cases["sanity_divergence"] = [](RankWorld& world) {
    threat_models_hold(world, InnerLoss::kKlDivergence);
  };
  cases["sanity_cross_entropy"] = [](RankWorld& world) {
    threat_models_hold(world, InnerLoss::kCrossEntropy);
  };
  for (const std::string method : {"trades", "mixed", "pgd_at"}) {
    cases["sanity_" + method] = [method](RankWorld& world) { require_watched(world, method); };
  }
}

}  // namespace temper::testing_support
