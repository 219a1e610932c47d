// Methods that move weights or carry noise from update to update.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/reference_nets.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"
#include "temper/methods/catalog.h"
#include "temper/methods/weight_perturbation.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

using testing_support::difference;

std::shared_ptr<Classifier> make_net() {
  auto net = testing_support::make_reference_net("cnn");
  initialize(*net, 1);
  net->to(at::kDouble);
  return net;
}

ImageBatch make_batch(std::int64_t count, std::int64_t first = 0) {
  const at::Tensor samples = at::arange(first, first + count);
  return {uniform_tensor({.seed = 2}, samples, {3, 8, 8}, at::kDouble), samples.remainder(10),
          samples};
}

std::shared_ptr<const Attack> attack() {
  return std::make_shared<PgdAttack>(ThreatModel{.epsilon = 0.05},
                                     PgdOptions{.steps = 2, .step_size = 0.02});
}

std::vector<at::Tensor> copies(Classifier& net) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& parameter : net.parameters()) {
    out.push_back(parameter.detach().clone());
  }
  return out;
}

void clear_gradients(Classifier& net) {
  for (at::Tensor& parameter : net.parameters()) {
    parameter.mutable_grad() = at::Tensor();
  }
}

StepOutput run(TrainingMethod& method, Classifier& net, const ImageBatch& batch,
               std::uint32_t epoch = 0, std::size_t micro_batch = 0) {
  StepContext context{.model = net,
                      .epoch = epoch,
                      .micro_batch = micro_batch,
                      .backward = [](const at::Tensor& loss) { loss.backward(); }};
  return method.compute_gradients(context, batch);
}

const at::Tensor kApplied = at::zeros({});
const at::Tensor kSkipped = at::ones({});

TEST(WeightPerturbationTest, MovesEachWeightByGammaOfItsNorm) {
  const auto net = make_net();
  const ImageBatch batch = make_batch(6);
  const auto before = copies(*net);
  WeightPerturbation perturbation({.gamma = 0.01});
  const at::Tensor loss =
      at::cross_entropy_loss(net->forward(batch.images), batch.labels, {}, at::Reduction::Sum);
  static_cast<void>(perturbation.perturb(*net, loss, {}));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor moved = net->parameters()[i] - before[i];
    const double expected = before[i].dim() > 1 ? 0.01 * before[i].norm().item<double>() : 0;
    EXPECT_NEAR(moved.norm().item<double>(), expected, 1e-12) << i;
    EXPECT_FALSE(net->parameters()[i].grad().defined());
  }
  const at::Tensor raised =
      at::cross_entropy_loss(net->forward(batch.images), batch.labels, {}, at::Reduction::Sum);
  EXPECT_GT(raised.item<double>(), loss.item<double>());
  perturbation.restore(kApplied);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(net->parameters()[i], before[i])) << i;
  }
}

TEST(WeightPerturbationTest, TheStepsChangeIsKeptAndASkippedUpdateLeavesTheWeights) {
  const auto net = make_net();
  const auto method = built_in_methods().make("pgd_at", attack(),
                                              {.weight_perturbation = WeightPerturbationOptions{}});
  const auto before = copies(*net);
  for (const bool steps : {false, true}) {
    const StepOutput output = run(*method, *net, make_batch(6));
    EXPECT_FALSE(output.weight_directions.empty());
    EXPECT_FALSE(at::equal(net->parameters()[0], before[0]));
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) {
      parameter.add_(steps ? 0.25 : 0);
    }
    method->after_update(*net, steps ? kApplied : kSkipped);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const at::Tensor now = net->parameters()[i];
      EXPECT_TRUE(steps ? at::allclose(now, before[i] + 0.25, 0, 1e-15)
                        : at::equal(now, before[i]));
    }
  }
}

TEST(WeightPerturbationTest, ASkippedUpdateTakesOffAPerturbationThatIsNotFinite) {
  const auto net = make_net();
  const ImageBatch batch = make_batch(6);
  const auto before = copies(*net);
  WeightPerturbation perturbation({.gamma = 0.01});
  const at::Tensor loss = at::mul(net->forward(batch.images).sum(), std::nan(""));
  static_cast<void>(perturbation.perturb(*net, loss, {}));
  EXPECT_FALSE(at::isfinite(net->parameters()[0]).all().item<bool>());
  perturbation.restore(kSkipped);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(net->parameters()[i], before[i])) << i;
  }
}

// Each micro-batch is attacked and perturbed from the true weights.
TEST(WeightPerturbationTest, MicroBatchesDoNotAddUp) {
  const auto net = make_net();
  const auto method = built_in_methods().make("trades", attack(),
                                              {.weight_perturbation = WeightPerturbationOptions{}});
  const auto before = copies(*net);
  static_cast<void>(run(*method, *net, make_batch(4, 20)));
  const StepOutput second = run(*method, *net, make_batch(6));
  method->after_update(*net, kSkipped);
  clear_gradients(*net);
  const StepOutput alone = run(*method, *net, make_batch(6));
  EXPECT_TRUE(at::equal(second.proxy_loss, alone.proxy_loss));
  EXPECT_TRUE(at::equal(second.loss, alone.loss));
  method->after_update(*net, kSkipped);
  EXPECT_TRUE(at::equal(net->parameters()[0], before[0]));
}

TEST(WeightPerturbationTest, StartsWithItsEpochAndWritesNoStatistics) {
  const auto net = make_net();
  const auto method = built_in_methods().make(
      "trades", attack(), {.weight_perturbation = WeightPerturbationOptions{.start_epoch = 2}});
  EXPECT_TRUE(run(*method, *net, make_batch(6), 1).weight_directions.empty());
  PendingStatistics(*net).drop();
  EXPECT_FALSE(run(*method, *net, make_batch(6), 2).weight_directions.empty());
  method->after_update(*net, kApplied);
  PendingStatistics(*net).commit(at::ones({}, at::kBool));
  EXPECT_EQ(net->named_buffers()["bn1.num_batches_tracked"].item<std::int64_t>(), 1);
}

MethodOptions free_options(NoiseClamp clamp = NoiseClamp::kImage) {
  return {
      .free = {.threat_model = {.epsilon = 0.05}, .step_size = 0.03, .replays = 3, .clamp = clamp},
      .statistics = {.adversarial_forward = StatisticsMode::kUpdate}};
}

at::Tensor noise_of(const TrainingMethod& method) { return method.state({}).front().second; }

TEST(Free, CarriesNoiseInsideTheBallAndDropsItWithASkippedUpdate) {
  for (const NoiseClamp clamp : {NoiseClamp::kImage, NoiseClamp::kNoise}) {
    const auto net = make_net();
    const auto method = built_in_methods().make("free", nullptr, free_options(clamp));
    EXPECT_EQ(method->updates_per_batch(), 3);
    EXPECT_TRUE(method->state({}).empty());
    const StepOutput first = run(*method, *net, make_batch(6));
    EXPECT_TRUE(at::equal(first.adversarial_images, make_batch(6).images));
    method->after_update(*net, kApplied);
    const at::Tensor noise = noise_of(*method).clone();
    EXPECT_GT(noise.abs().sum().item<double>(), 0);
    static_cast<void>(run(*method, *net, make_batch(6)));
    method->after_update(*net, kSkipped);
    EXPECT_TRUE(at::equal(noise_of(*method), noise));
    static_cast<void>(run(*method, *net, make_batch(6)));
    method->after_update(*net, kApplied);
    EXPECT_FALSE(at::equal(noise_of(*method), noise));
    EXPECT_LE(noise_of(*method).abs().max().item<double>(), 0.05 + 1e-15);
    const at::Tensor images = make_batch(6).images + noise_of(*method);
    if (clamp == NoiseClamp::kNoise) {
      EXPECT_GE(images.min().item<double>(), -1e-15);
      EXPECT_LE(images.max().item<double>(), 1 + 1e-15);
    }
  }
}

TEST(Free, ItsStepAndBallGrowWithTheWarmup) {
  const auto net = make_net();
  for (const auto& [update, share] : {std::pair{0U, 0.0}, {1U, 0.25}, {4U, 1.0}}) {
    MethodOptions options = free_options();
    options.epsilon_warmup = 4;
    const auto method = built_in_methods().make("free", nullptr, options);
    StepContext context{.model = *net,
                        .update = update,
                        .updates_per_epoch = 4,
                        .backward = [](const at::Tensor& loss) { loss.backward(); }};
    static_cast<void>(method->compute_gradients(context, make_batch(6)));
    method->after_update(*net, kApplied);
    EXPECT_DOUBLE_EQ(noise_of(*method).abs().max().item<double>(), 0.03 * share);
  }
}

// The last batch of an epoch is smaller; what lies behind it stays.
TEST(Free, KeepsTheNoiseOfPlacesThatABatchDoesNotFill) {
  const auto net = make_net();
  const auto method = built_in_methods().make("free", nullptr, free_options());
  static_cast<void>(run(*method, *net, make_batch(6)));
  method->after_update(*net, kApplied);
  const at::Tensor before = noise_of(*method).clone();
  static_cast<void>(run(*method, *net, make_batch(2, 30)));
  method->after_update(*net, kApplied);
  EXPECT_TRUE(at::equal(noise_of(*method).narrow(0, 2, 4), before.narrow(0, 2, 4)));
  EXPECT_FALSE(at::equal(noise_of(*method).narrow(0, 0, 2), before.narrow(0, 0, 2)));
  static_cast<void>(run(*method, *net, make_batch(0)));
  method->after_update(*net, kApplied);
  EXPECT_EQ(noise_of(*method).size(0), 6);
}

TEST(Free, ItsStateIsTakenUpAgain) {
  const auto net = make_net();
  const auto method = built_in_methods().make("free", nullptr, free_options());
  static_cast<void>(run(*method, *net, make_batch(5), 0, 0));
  static_cast<void>(run(*method, *net, make_batch(3), 0, 1));
  method->after_update(*net, kApplied);
  const StateDict saved = method->state({});
  ASSERT_EQ(saved.size(), 2);
  const auto again = built_in_methods().make("free", nullptr, free_options());
  again->load_state(saved);
  const StateDict unused = again->state({});
  ASSERT_EQ(unused.size(), 2);
  EXPECT_TRUE(at::equal(unused[1].second, saved[1].second));
  const StepOutput expected = run(*method, *net, make_batch(5, 10));
  const StepOutput actual = run(*again, *net, make_batch(5, 10));
  EXPECT_TRUE(at::equal(actual.adversarial_images, expected.adversarial_images));
}

TEST(MethodState, OfAnotherMethodIsRefused) {
  const StateDict noise{{"noise/0", at::zeros({1, 3, 8, 8})}};
  for (const char* name : {"standard", "trades"}) {
    EXPECT_THROW(built_in_methods().make(name, attack(), {})->load_state(noise), ConfigError);
  }
  const auto free = built_in_methods().make("free", nullptr, free_options());
  for (const char* name : {"attack_steps_factor", "noise/", "noise/x", "noise/99999999999"}) {
    EXPECT_THROW(free->load_state({{name, at::zeros({1, 3, 8, 8})}}), ConfigError) << name;
  }
}

// Of what an attack is asked, this one notes the scale and the factor.
class NotingAttack final : public Attack {
 public:
  mutable double scale = -1;
  mutable int factor = 0;
  mutable at::Tensor labels;
  [[nodiscard]] at::Tensor perturb(Classifier&, const at::Tensor& images, const at::Tensor& of,
                                   const AttackContext& context) const override {
    labels = of;
    scale = context.epsilon_scale;
    factor = context.steps_factor;
    return images;
  }
};

ImageBatch make_mixed_batch(std::int64_t count) {
  ImageBatch batch = make_batch(count);
  const at::Tensor shares = uniform_tensor({.seed = 5}, batch.samples, {10}, at::kDouble);
  batch.targets = shares / shares.sum(1, /*keepdim=*/true);
  return batch;
}

TEST(MixedLabels, AreWhatTheAttackClimbsOn) {
  const auto net = make_net();
  const auto noting = std::make_shared<NotingAttack>();
  const ImageBatch mixed = make_mixed_batch(4);
  for (const char* name : {"pgd_at", "trades", "mixed", "mart"}) {
    const auto method = built_in_methods().make(name, noting, {});
    static_cast<void>(run(*method, *net, mixed));
    EXPECT_TRUE(noting->labels.is_same(mixed.targets)) << name;
    static_cast<void>(run(*method, *net, make_batch(4)));
    EXPECT_EQ(noting->labels.dim(), 1) << name;
  }
}

// The first replay meets clean images.
TEST(Free, ItsLossTakesMixedAndSmoothedLabels) {
  const auto net = make_net();
  MethodOptions options = free_options();
  options.label_smoothing = 0.2;
  for (const ImageBatch& batch : {make_batch(6), make_mixed_batch(6)}) {
    const auto method = built_in_methods().make("free", nullptr, options);
    const at::Tensor loss = run(*method, *net, batch).loss;
    const StatisticsModeGuard mode(*net, StatisticsMode::kBatch);
    const at::Tensor hard = at::one_hot(batch.labels, 10).to(at::kDouble);
    const at::Tensor targets = batch.targets.defined() ? batch.targets : hard;
    const at::Tensor expected =
        -((targets * 0.8 + 0.02) * net->forward(batch.images).log_softmax(1)).sum();
    EXPECT_EQ(difference(loss, expected.detach(), 1e-12), "");
  }
}

// What the box holds back takes no part of the step.
TEST(Free, AnL1StepGoesToPixelsThatCanMove) {
  const auto net = make_net();
  MethodOptions options = free_options(NoiseClamp::kNoise);
  options.free.threat_model = {.norm = Norm::kL1, .epsilon = 5};
  options.free.step_size = 0.5;
  const auto method = built_in_methods().make("free", nullptr, options);
  ImageBatch batch = make_batch(6);
  batch.images = batch.images.round();  // black and white
  static_cast<void>(run(*method, *net, batch));
  method->after_update(*net, kApplied);
  EXPECT_EQ(difference(perturbation_norm(noise_of(*method), Norm::kL1),
                       at::full({6}, 0.5, at::kDouble), 1e-12),
            "");
}

TEST(Warmup, GrowsFromTheStartEpochOn) {
  const auto net = make_net();
  const auto noting = std::make_shared<NotingAttack>();
  const auto method =
      built_in_methods().make("pgd_at", noting, {.start_epoch = 1, .epsilon_warmup = 8});
  const auto scale_at = [&](std::uint32_t update) {
    StepContext context{.model = *net,
                        .epoch = update / 4,
                        .update = update,
                        .updates_per_epoch = 4,
                        .backward = [](const at::Tensor&) {}};
    noting->scale = -1;
    static_cast<void>(method->compute_gradients(context, make_batch(4)));
    return noting->scale;
  };
  EXPECT_EQ(scale_at(3), -1);
  EXPECT_EQ(scale_at(4), 0);
  EXPECT_EQ(scale_at(6), 0.25);
  EXPECT_EQ(scale_at(12), 1);
  EXPECT_EQ(scale_at(40), 1);
}

TEST(Strengthening, DoublesTheStepsAndIsPartOfTheState) {
  const auto net = make_net();
  const auto noting = std::make_shared<NotingAttack>();
  const auto method = built_in_methods().make("fgsm_rs", noting, {});
  EXPECT_TRUE(method->state({}).empty());
  EXPECT_EQ(method->strengthen_attack(), 2);
  EXPECT_EQ(method->strengthen_attack(), 4);
  static_cast<void>(run(*method, *net, make_batch(4)));
  EXPECT_EQ(noting->factor, 4);
  const auto again = built_in_methods().make("fgsm_rs", noting, {});
  again->load_state(method->state({}));
  noting->factor = 0;
  static_cast<void>(run(*again, *net, make_batch(4)));
  EXPECT_EQ(noting->factor, 4);
  EXPECT_FALSE(built_in_methods().make("free", nullptr, free_options())->can_strengthen_attack());
  for (int factor = 8; factor <= 32; factor *= 2) {
    ASSERT_TRUE(method->can_strengthen_attack());
    EXPECT_EQ(method->strengthen_attack(), factor);
  }
  EXPECT_FALSE(method->can_strengthen_attack());
  EXPECT_THROW(static_cast<void>(method->strengthen_attack()), CheckFailure);
}

}  // namespace
}  // namespace temper
