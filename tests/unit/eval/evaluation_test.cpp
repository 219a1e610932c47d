#include "temper/eval/evaluation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/reference_nets.h"
#include "support/small_training.h"
#include "temper/attacks/pgd.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

struct Rig {
  testing_support::RandomDataset data{20};
  std::shared_ptr<Classifier> model = testing_support::make_reference_net("cnn");
  Loader loader{data, Transform(), {.image_size = 8}};
  std::unique_ptr<Communicator> communicator = make_communicator(nullptr, {});
  ThreatModel threat_model{.epsilon = 0.3};

  Rig() { initialize(*model, 1); }
  EvaluationResult run(const EvaluationOptions& options, int steps = 20) {
    const auto attack =
        std::make_shared<PgdAttack>(threat_model, PgdOptions{.steps = steps, .step_size = 0.05});
    return evaluate(*model, loader, {{"pgd", threat_model, attack}}, *communicator, options);
  }
};

// The request comes while the attack on the only batch runs: the half-made examples must not count.
TEST(Evaluation, ARequestInTheLastBatchMakesTheResultIncomplete) {
  Rig rig;
  int calls = 0;
  const EvaluationResult result = rig.run(
      {.dataset_size = 20, .batch_size = 20, .stop_requested = [&] { return ++calls > 3; }});
  EXPECT_GT(calls, 3);
  EXPECT_FALSE(result.complete);
}

TEST(Evaluation, WithoutARequestItIsCompleteAndRobustIsAtMostClean) {
  Rig rig;
  const EvaluationResult result =
      rig.run({.dataset_size = 20, .batch_size = 6, .stop_requested = [] { return false; }});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.samples, 20);
  EXPECT_LE(result.attacks[0].robust_correct, result.clean_correct);
}

TEST(Evaluation, APartIsSpreadOverTheDataSet) {
  Rig rig;
  EXPECT_EQ(rig.run({.dataset_size = 20, .samples = 7, .batch_size = 3}).samples, 7);
}

// The dead net says class 0, which 2 of 20 images have; no gradient moves them.
TEST(Evaluation, CountsZeroGradients) {
  Rig rig;
  rig.model = testing_support::make_reference_net("dead");
  const EvaluationResult result = rig.run({.dataset_size = 20, .batch_size = 6});
  EXPECT_EQ(result.clean_correct, 2);
  EXPECT_EQ(result.attacks[0].robust_correct, 2);
  EXPECT_EQ(result.attacks[0].zero_gradients, 2);
  EXPECT_EQ(result.attacks[0].nonfinite_gradients, 0);
}

// Values of statsmodels' proportion_confint(..., method="wilson").
TEST(ShareInterval, IsTheOneOfWilson) {
  const auto expect = [](std::int64_t correct, std::int64_t samples, double low, double high) {
    const ShareInterval interval = share_interval(correct, samples);
    EXPECT_NEAR(interval.low, low, 1e-6) << correct << " of " << samples;
    EXPECT_NEAR(interval.high, high, 1e-6) << correct << " of " << samples;
  };
  expect(50, 100, 0.4038315, 0.5961685);
  expect(0, 10, 0, 0.2775328);
  expect(10, 10, 0.7224672, 1);
  expect(0, 0, 0, 1);
}

TEST(ToDevice, ScalesBytesAndOrdersChannelsFirst) {
  HostBatch batch;
  batch.count = 1;
  batch.height = 1;
  batch.width = 2;
  batch.channels = 3;
  batch.pixels.resize(6);
  for (int i = 0; i < 6; ++i) {
    batch.pixels.data()[i] = static_cast<std::byte>(51 * i);
  }
  batch.labels = {4};
  batch.samples = {9};
  const ImageBatch images = to_device(batch, {.dtype = at::kDouble});
  const at::Tensor expected =
      at::tensor({0.0, 0.6, 0.2, 0.8, 0.4, 1.0}, at::kDouble).view({1, 3, 1, 2});
  EXPECT_TRUE(at::allclose(images.images, expected, 0, 1e-15));
  EXPECT_EQ(images.labels.item<std::int64_t>(), 4);
  EXPECT_EQ(images.samples.item<std::int64_t>(), 9);
}

}  // namespace
}  // namespace temper
