// Pre-activation and wide ResNets: what does not need a peer in PyTorch. tests/interop compares
// their numbers.

#include "models/pre_activation.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temper/core/error.h"
#include "temper/models/foreign_weights.h"
#include "temper/models/model_state.h"

namespace temper {
namespace {

using testing::HasSubstr;

std::shared_ptr<Classifier> wide(PreActivationForm form, const ArchitectureOptions& options = {}) {
  return make_wide_resnet({.depth = 10, .width = 1, .form = form}, options);
}

constexpr auto kTrades = PreActivationForm::kTradesWideResNet;
constexpr auto kDeepMind = PreActivationForm::kDeepMindWideResNet;

std::int64_t parameter_count(const Classifier& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    count += parameter.numel();
  }
  return count;
}

TEST(PreActivation, ParameterCountsAreThoseOfThePapers) {
  const auto architectures = built_in_architectures();
  EXPECT_EQ(parameter_count(*architectures.make("preactresnet18", {})), 11172170);
  EXPECT_EQ(parameter_count(*architectures.make("wideresnet28_10", {})), 36479194);
  EXPECT_EQ(parameter_count(*architectures.make("wideresnet34_10", {})), 46160474);
  EXPECT_EQ(parameter_count(*architectures.make("wideresnet28_10_silu", {})), 36479194);
  EXPECT_EQ(parameter_count(*architectures.make("wideresnet34_10_silu", {})),
            parameter_count(*architectures.make("wideresnet34_10", {})));
}

TEST(PreActivation, TakesOtherSizesChannelsAndEmptyBatches) {
  for (const auto form : {kTrades, kDeepMind}) {
    for (const std::int64_t size : {5, 8, 21}) {
      const auto net = wide(form, {.classes = 7, .channels = 1, .image_size = size});
      net->set_statistics_mode(StatisticsMode::kRunning);
      EXPECT_EQ(net->forward(at::rand({2, 1, size, size})).sizes(), (at::IntArrayRef{2, 7}));
      EXPECT_EQ(net->forward(at::rand({0, 1, size, size})).sizes(), (at::IntArrayRef{0, 7}));
    }
  }
  const auto net = make_preact_resnet18({.classes = 3, .channels = 1, .image_size = 8});
  net->set_statistics_mode(StatisticsMode::kRunning);
  EXPECT_EQ(net->forward(at::rand({2, 1, 8, 8})).sizes(), (at::IntArrayRef{2, 3}));
  net->forward(at::zeros({0, 1, 8, 8})).sum().backward();
  for (const at::Tensor& parameter : net->parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << "an empty batch must give zero gradients";
  }
}

TEST(PreActivation, DepthsThatAreNoneAreOurOwnMistake) {
  EXPECT_THROW(static_cast<void>(make_wide_resnet({.depth = 30}, {})), CheckFailure);
  EXPECT_THROW(static_cast<void>(make_wide_resnet({.depth = 4}, {})), CheckFailure);
}

TEST(PreActivation, WideResNetsStartAsTheirCodeDoes) {
  const auto net = make_wide_resnet({.depth = 10, .width = 4}, {});
  initialize(*net, 3);
  const auto parameters = net->named_parameters();
  const at::Tensor weight = parameters["block3.layer.0.conv2.weight"];  // [256, 256, 3, 3]
  const double deviation = std::sqrt(2.0 / (256 * 9));
  EXPECT_NEAR(weight.std().item<double>(), deviation, 0.01 * deviation);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 0.01 * deviation);
  EXPECT_GT(weight.abs().max().item<double>(), 4 * deviation) << "not a normal distribution";
  const at::Tensor projection =
      parameters["block2.layer.0.convShortcut.weight"];  // [128, 64, 1, 1]
  const double of_projection = std::sqrt(2.0 / 128);
  EXPECT_NEAR(projection.std().item<double>(), of_projection, 0.05 * of_projection);
  EXPECT_EQ(parameters["fc.bias"].abs().max().item<double>(), 0);
  EXPECT_LE(parameters["fc.weight"].abs().max().item<double>(), 1 / std::sqrt(256.0));
  const auto other = make_wide_resnet({.depth = 10, .width = 4}, {});
  initialize(*other, 3);
  EXPECT_TRUE(at::equal(other->named_parameters()["conv1.weight"], parameters["conv1.weight"]));

  const auto preact = make_preact_resnet18({});
  initialize(*preact, 3);
  const at::Tensor uniform = preact->named_parameters()["conv1.weight"];
  EXPECT_LE(uniform.abs().max().item<double>(), 1 / std::sqrt(27.0));
}

TEST(ForeignWeights, OwnNamesStayAsTheyAre) {
  for (const auto form : {kTrades, kDeepMind}) {
    const auto net = wide(form);
    const StateDict state = state_dict(*net);
    const AdoptedWeights adopted = adopt_weights(state, *net, "a.pt");
    ASSERT_EQ(adopted.weights.size(), state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(adopted.weights[i].first, state[i].first);
    }
    EXPECT_EQ(adopted.names + adopted.prefix, "");
    EXPECT_EQ(adopted.unused, 0U);
    EXPECT_FALSE(adopted.normalization);
  }
}

TEST(ForeignWeights, OnlyPairsOfChannelListsAreANormalisation) {
  const auto net = wide(kTrades);
  const StateDict state{{"norm.mean", at::zeros({3, 1, 1})},
                        {"std", at::ones({3, 1, 1})},
                        {"mu", at::zeros({5})},
                        {"sigma", at::ones({5})}};
  const AdoptedWeights adopted = adopt_weights(state, *net, "a.pt");
  EXPECT_EQ(adopted.weights.size(), 4U);
  EXPECT_FALSE(adopted.normalization);
}

TEST(ForeignWeights, AStageThatIsNotUnusedStays) {
  const auto preact = make_preact_resnet18({});
  StateDict state = state_dict(*preact);
  state.emplace_back("sub_block1.layer.0.bn1.weight", at::ones({1}));
  EXPECT_EQ(adopt_weights(state, *preact, "a.pt").weights.size(), state.size());
  state.back().first = "sub_block10.bn1.weight";
  EXPECT_EQ(adopt_weights(state, *wide(kTrades), "a.pt").unused, 0U);
}

TEST(ForeignWeights, OtherNetsAreNamed) {
  const StateDict deepmind{{"init_conv.weight", at::ones({1})},
                           {"layer.0.block.0.conv_0.weight", at::ones({1})},
                           {"logits.weight", at::ones({1})}};
  try {
    static_cast<void>(adopt_weights(deepmind, *wide(kTrades), "a.pt"));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a.pt: these are weights of DeepMind's wide ResNet"));
  }
  const AdoptedWeights adopted = adopt_weights(deepmind, *wide(kDeepMind), "a.pt");
  EXPECT_EQ(adopted.weights[1].first, "block1.layer.0.conv1.weight");
}

}  // namespace
}  // namespace temper
