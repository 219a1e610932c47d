#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"
#include "temper/models/model_state.h"

namespace temper {
namespace {

using testing_support::difference;

std::shared_ptr<Classifier> make(const std::string& name, const ArchitectureOptions& options) {
  return built_in_architectures().make(name, options);
}

std::int64_t parameter_count(const Classifier& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) {
    count += parameter.numel();
  }
  return count;
}

// Convolutions with bias: 3*264*16 + 264, 264*128*16 + 128, 128*256*9 + 256; batch norms 2 * (264 +
// 128 + 256); linear 256*10 + 10.
constexpr std::int64_t kWideCnnParameters = 12936 + 540800 + 295168 + 1296 + 2570;

TEST(Architectures, HaveTheKnownParameterCounts) {
  EXPECT_EQ(parameter_count(*make("resnet18", {.classes = 1000})), 11689512);
  EXPECT_EQ(parameter_count(*make("resnet34", {.classes = 1000})), 21797672);
  EXPECT_EQ(parameter_count(*make("resnet50", {.classes = 1000})), 25557032);
  EXPECT_EQ(parameter_count(*make("digits_cnn", {.channels = 1, .image_size = 8})), 21594);
  EXPECT_EQ(parameter_count(*make("mnist_cnn", {.channels = 1, .image_size = 28})), 55418);
  EXPECT_EQ(parameter_count(*make("small_cnn", {.channels = 1, .image_size = 28})), 312202);
  EXPECT_EQ(parameter_count(*make("wide_cnn", {.image_size = 32})), kWideCnnParameters);
}

TEST(Architectures, GiveLogitsForFullAndEmptyBatches) {
  const auto small = make("resnet18", {.classes = 7, .image_size = 32, .small_images = true});
  small->set_statistics_mode(StatisticsMode::kRunning);
  EXPECT_EQ(small->forward(at::rand({2, 3, 32, 32})).sizes(), (at::IntArrayRef{2, 7}));
  EXPECT_EQ(small->forward(at::rand({0, 3, 32, 32})).sizes(), (at::IntArrayRef{0, 7}));
  const auto digits = make("digits_cnn", {.channels = 1, .image_size = 8});
  at::Tensor empty = at::zeros({0, 1, 8, 8});
  digits->forward(empty).sum().backward();
  for (const at::Tensor& parameter : digits->parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << "an empty batch must give zero gradients";
    EXPECT_EQ(parameter.grad().abs().sum().item<double>(), 0);
  }
}

TEST(Architectures, SmallCnnHasTheNamesOfTheOfficialCode) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] :
       state_dict(*make("small_cnn", {.channels = 1, .image_size = 28}))) {
    names.push_back(name);
  }
  const std::vector<std::string> expected{
      "feature_extractor.conv1.weight", "feature_extractor.conv1.bias",
      "feature_extractor.conv2.weight", "feature_extractor.conv2.bias",
      "feature_extractor.conv3.weight", "feature_extractor.conv3.bias",
      "feature_extractor.conv4.weight", "feature_extractor.conv4.bias",
      "classifier.fc1.weight",          "classifier.fc1.bias",
      "classifier.fc2.weight",          "classifier.fc2.bias",
      "classifier.fc3.weight",          "classifier.fc3.bias"};
  EXPECT_EQ(names, expected);
}

TEST(Architectures, WideCnnTakesAnySizeAndKeepsItBeforeThePooling) {
  for (const std::int64_t size : {4, 9, 32}) {
    const auto net = make("wide_cnn", {.classes = 3, .image_size = size});
    net->set_statistics_mode(StatisticsMode::kRunning);
    EXPECT_EQ(net->forward(at::rand({2, 3, size, size})).sizes(), (at::IntArrayRef{2, 3}));
  }
  EXPECT_THROW(static_cast<void>(make("wide_cnn", {.image_size = 3})), ConfigError);
}

TEST(Architectures, RefuseImagesThatDoNotFit) {
  EXPECT_THROW(static_cast<void>(make("digits_cnn", {.channels = 3, .image_size = 8})),
               ConfigError);
  try {
    static_cast<void>(make("resnet19", {}));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'resnet18'"), std::string::npos);
  }
}

TEST(Classifier, NormalisesInsideInPixelUnits) {
  ArchitectureOptions options{.channels = 1, .image_size = 8};
  const auto plain = make("digits_cnn", options);
  options.normalization = {.mean = {0.25}, .std = {0.5}};
  const auto normalizing = make("digits_cnn", options);
  initialize(*plain, 3);
  initialize(*normalizing, 3);
  const at::Tensor images = uniform_tensor({.seed = 1}, at::arange(4), {1, 8, 8}, at::kFloat);
  EXPECT_EQ(difference(normalizing->forward(images), plain->forward((images - 0.25) / 0.5), 1e-6),
            "");
}

TEST(Initialization, IsKeyedByTheSeedAndWithinPytorchsBounds) {
  const ArchitectureOptions options{.channels = 1, .image_size = 8};
  const auto first = make("digits_cnn", options);
  const auto second = make("digits_cnn", options);
  initialize(*first, 7);
  initialize(*second, 7);
  for (std::size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(first->parameters()[i], second->parameters()[i]));
  }
  initialize(*second, 8);
  const at::Tensor weight = first->named_parameters()["fc1.weight"];
  EXPECT_FALSE(at::equal(weight, second->named_parameters()["fc1.weight"]));
  const double bound = 1 / std::sqrt(512.0);
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.02 * bound);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 0.02 * bound);
  EXPECT_TRUE(at::equal(first->named_parameters()["bn1.weight"], at::ones({16})));
}

TEST(Guards, RestoreModesAndFlagsAlsoOnAThrow) {
  const auto model = make("digits_cnn", {.channels = 1, .image_size = 8});
  model->named_parameters()["fc1.bias"].set_requires_grad(false);
  model->batch_norms()[1]->set_mode(StatisticsMode::kRunning);
  try {
    const AttackStateGuard guard(*model, StatisticsMode::kBatch);
    EXPECT_FALSE(model->named_parameters()["fc1.weight"].requires_grad());
    EXPECT_EQ(model->batch_norms()[0]->mode(), StatisticsMode::kBatch);
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(model->named_parameters()["fc1.weight"].requires_grad());
  EXPECT_FALSE(model->named_parameters()["fc1.bias"].requires_grad());
  EXPECT_EQ(model->batch_norms()[0]->mode(), StatisticsMode::kUpdate);
  EXPECT_EQ(model->batch_norms()[1]->mode(), StatisticsMode::kRunning);
}

TEST(ModelState, LoadsStrictlyAndNamesWhatDiffers) {
  const auto model = make("digits_cnn", {.channels = 1, .image_size = 8});
  StateDict state;
  for (const auto& [name, tensor] : state_dict(*model)) {
    state.emplace_back(name, at::full_like(tensor, 2));
  }
  load_state_dict(*model, state, "a.pt");
  EXPECT_EQ(model->named_buffers()["bn1.running_mean"].min().item<double>(), 2);
  state[0].second = at::zeros({3});
  state.back().first = "fc3.bias";
  try {
    load_state_dict(*model, state, "a.pt");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("a.pt"), std::string::npos);
    EXPECT_NE(text.find("1 missing: fc2.bias"), std::string::npos) << text;
    EXPECT_NE(text.find("1 unexpected: fc3.bias"), std::string::npos) << text;
    EXPECT_NE(text.find("conv1.weight [3] instead of [16, 1, 3, 3]"), std::string::npos) << text;
  }
}

// Of digits_cnn, every element `value`.
StateDict filled_state(const Classifier& model, double value) {
  StateDict state;
  for (const auto& [name, tensor] : state_dict(model)) {
    state.emplace_back(name, at::full_like(tensor, value));
  }
  return state;
}

std::string mismatch_of(Classifier& model, const StateDict& state,
                        std::vector<std::string>* resized = nullptr) {
  try {
    load_state_dict(model, state, "a.pt");
  } catch (const StateMismatch& mismatch) {
    if (resized != nullptr) {
      *resized = mismatch.resized();
    }
    return mismatch.what();
  }
  return "no mismatch";
}

TEST(ModelState, PartsAreWholeComponents) {
  EXPECT_TRUE(is_within("fc", "fc"));
  EXPECT_TRUE(is_within("fc.weight", "fc"));
  EXPECT_TRUE(is_within("layer1.0.bn1.bias", "layer1.0"));
  EXPECT_FALSE(is_within("fc2.weight", "fc"));
  EXPECT_FALSE(is_within("f", "fc"));
  EXPECT_FALSE(is_within("head.fc.weight", "fc"));
}

TEST(ModelState, IgnoredPartsStayAsTheyWere) {
  const auto model = make("digits_cnn", {.classes = 3, .channels = 1, .image_size = 8});
  StateDict state = filled_state(*make("digits_cnn", {.channels = 1, .image_size = 8}), 2);
  state.emplace_back("fc2.extra", at::ones({1}));
  const at::Tensor before = model->named_parameters()["fc2.weight"].detach().clone();
  const LoadedState loaded = load_state_dict(*model, state, "a.pt", {"fc2"});
  EXPECT_EQ(loaded.ignored, (std::vector<std::string>{"fc2.weight", "fc2.bias"}));
  EXPECT_EQ(loaded.total, state_dict(*model).size());
  EXPECT_EQ(loaded.taken, loaded.total - 2);
  EXPECT_TRUE(at::equal(model->named_parameters()["fc2.weight"], before));
  EXPECT_EQ(model->named_parameters()["fc1.weight"].min().item<double>(), 2);
}

TEST(ModelState, TypesAreConvertedButIntegersAreNoWeights) {
  const auto model = make("digits_cnn", {.channels = 1, .image_size = 8});
  for (const auto type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    StateDict state = filled_state(*model, 0.5);
    for (auto& [name, tensor] : state) {
      tensor = tensor.to(type);  // the counters of batch norm too, as some scripts do
    }
    model->named_parameters()["fc1.weight"].detach().zero_();
    load_state_dict(*model, state, "a.pt");
    EXPECT_EQ(model->named_parameters()["fc1.weight"].scalar_type(), at::kFloat);
    EXPECT_EQ(model->named_parameters()["fc1.weight"].min().item<double>(), 0.5);
  }
  StateDict state = filled_state(*model, 3);
  state[0].second = state[0].second.to(at::kLong);
  EXPECT_NE(
      mismatch_of(*model, state).find("1 of another type: conv1.weight Long instead of Float"),
      std::string::npos);
  EXPECT_EQ(model->named_parameters()["fc1.weight"].min().item<double>(), 0.5)
      << "a refused state must change nothing";
}

TEST(ModelState, BatchCountersMayBeMissing) {
  const auto model = make("digits_cnn", {.channels = 1, .image_size = 8});
  StateDict state = filled_state(*model, 2);
  std::erase_if(state, [](const auto& e) { return e.first.ends_with(".num_batches_tracked"); });
  const LoadedState loaded = load_state_dict(*model, state, "a.pt");
  EXPECT_EQ(loaded.taken, state.size());
  EXPECT_LT(loaded.taken, loaded.total);
  EXPECT_TRUE(loaded.ignored.empty());
}

TEST(ModelState, TellsAnotherNumberOfClassesFromOtherDifferences) {
  const auto model = make("digits_cnn", {.classes = 3, .channels = 1, .image_size = 8});
  StateDict state = filled_state(*make("digits_cnn", {.channels = 1, .image_size = 8}), 2);
  std::vector<std::string> resized;
  EXPECT_NE(mismatch_of(*model, state, &resized).find("2 of another shape"), std::string::npos);
  EXPECT_EQ(resized, (std::vector<std::string>{"fc2.weight", "fc2.bias"}));
  state.emplace_back("other", at::ones({1}));
  static_cast<void>(mismatch_of(*model, state, &resized));
  EXPECT_TRUE(resized.empty());
  state.pop_back();
  state[0].second = at::ones({16, 1, 5, 5});
  static_cast<void>(mismatch_of(*model, state, &resized));
  EXPECT_TRUE(resized.empty());
}

}  // namespace
}  // namespace temper
