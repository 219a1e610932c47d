#include "temper/models/batch_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/compare.h"
#include "support/reference_nets.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper {
namespace {

using testing_support::difference;

at::Tensor random_input(at::IntArrayRef shape, std::uint8_t layer = 0) {
  return normal_tensor({.seed = 5, .layer = layer}, at::arange(shape[0]), shape.slice(1),
                       at::kDouble);
}

std::shared_ptr<BatchNorm> make_layer(std::int64_t features) {
  auto layer = std::make_shared<BatchNorm>(features);
  layer->to(at::kDouble);
  const at::NoGradGuard no_grad;
  layer->weight.copy_(at::linspace(0.5, 2, features));
  layer->bias.copy_(at::linspace(-1, 1, features));
  layer->running_mean.copy_(at::linspace(-0.1, 0.1, features));
  return layer;
}

const at::Tensor kApplied = at::ones({}, at::kBool);

TEST(BatchNorm, UpdateModeEqualsTrainingModeAfterTheCommit) {
  const auto layer = make_layer(3);
  const at::Tensor input = random_input({4, 3, 2, 2});
  at::Tensor mean = layer->running_mean.clone();
  at::Tensor var = layer->running_var.clone();
  const at::Tensor expected =
      at::batch_norm(input, layer->weight, layer->bias, mean, var, true, 0.1, 1e-5, false);
  const at::Tensor before = layer->running_mean.clone();
  EXPECT_EQ(difference(layer->forward(input), expected, 1e-15), "");
  EXPECT_TRUE(at::equal(layer->running_mean, before)) << "statistics moved before the commit";
  PendingStatistics(*layer).commit(kApplied);
  EXPECT_EQ(difference(layer->running_mean, mean, 1e-15), "");
  EXPECT_EQ(difference(layer->running_var, var, 1e-15), "");
  EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(BatchNorm, SeveralUpdateForwardsAccumulateInOrder) {
  const auto layer = make_layer(3);
  at::Tensor mean = layer->running_mean.clone();
  at::Tensor var = layer->running_var.clone();
  for (std::uint8_t i = 0; i < 3; ++i) {
    const at::Tensor input = random_input({5, 3}, i);
    static_cast<void>(at::batch_norm(input, {}, {}, mean, var, true, 0.1, 1e-5, false));
    static_cast<void>(layer->forward(input));
  }
  PendingStatistics(*layer).commit(kApplied);
  EXPECT_EQ(difference(layer->running_mean, mean, 1e-15), "");
  EXPECT_EQ(difference(layer->running_var, var, 1e-15), "");
  EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), 3);
}

TEST(BatchNorm, BatchModeAndSkippedUpdatesLeaveTheBuffers) {
  const auto layer = make_layer(3);
  const at::Tensor mean = layer->running_mean.clone();
  const at::Tensor var = layer->running_var.clone();
  PendingStatistics statistics(*layer);
  layer->set_mode(StatisticsMode::kBatch);
  static_cast<void>(layer->forward(random_input({4, 3})));
  statistics.commit(kApplied);
  layer->set_mode(StatisticsMode::kUpdate);
  static_cast<void>(layer->forward(random_input({4, 3})));
  statistics.commit(kApplied.logical_not());
  EXPECT_TRUE(at::equal(layer->running_mean, mean));
  EXPECT_TRUE(at::equal(layer->running_var, var));
  EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), 0);
  statistics.commit(kApplied);
  EXPECT_TRUE(at::equal(layer->running_mean, mean))
      << "a skipped forward came back at the next commit";
}

// A loss that mixes a running and an update forward: the gradient must be that of finite
// differences although the statistics are committed before the backward pass runs.
TEST(BatchNorm, ACommitCannotReachIntoAnEarlierGraph) {
  const auto layer = make_layer(2);
  at::Tensor input = random_input({6, 2}).requires_grad_(true);
  layer->set_mode(StatisticsMode::kRunning);
  const at::Tensor loss = layer->forward(input).pow(3).sum();
  layer->set_mode(StatisticsMode::kUpdate);
  static_cast<void>(layer->forward(input));
  const at::Tensor old_mean = layer->running_mean.clone();
  const at::Tensor old_var = layer->running_var.clone();
  const auto reference = [&](const at::Tensor& x) {
    return at::batch_norm(x, layer->weight, layer->bias, old_mean, old_var, false, 0.1, 1e-5, false)
        .pow(3)
        .sum();
  };
  PendingStatistics(*layer).commit(kApplied);
  const at::Tensor gradient = torch::autograd::grad({loss}, {input}).front();
  const at::NoGradGuard no_grad;
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    const double h = 1e-6;
    at::Tensor shift = at::zeros({input.numel()}, at::kDouble);
    shift[i] = h;
    const at::Tensor step = shift.view_as(input);
    const double expected =
        ((reference(input + step) - reference(input - step)) / (2 * h)).item<double>();
    EXPECT_NEAR(gradient.view(-1)[i].item<double>(), expected, 1e-6);
  }
}

// Local layers on parts of 5, 2 and 0 samples: each rank commits the average weighted by samples.
TEST(PendingStatistics, SumOverRanksIsWeightedBySamples) {
  const std::vector<std::int64_t> sizes{5, 2, 0};
  std::vector<std::shared_ptr<BatchNorm>> layers;
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> vars;
  at::Tensor sum;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    layers.push_back(make_layer(3));
    means.push_back(layers[rank]->running_mean.clone());
    vars.push_back(layers[rank]->running_var.clone());
    if (sizes[rank] > 0) {
      const at::Tensor input = random_input({sizes[rank], 3}, static_cast<std::uint8_t>(rank));
      static_cast<void>(
          at::batch_norm(input, {}, {}, means[rank], vars[rank], true, 0.1, 1e-5, false));
      static_cast<void>(layers[rank]->forward(input));
    }
    const PendingStatistics statistics(*layers[rank]);
    at::Tensor flat = at::full({statistics.flat_size()}, 7, at::kDouble);
    statistics.pack(flat);
    sum = sum.defined() ? sum + flat : flat;
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    PendingStatistics statistics(*layers[rank]);
    statistics.unpack(sum);
    statistics.commit(kApplied);
    EXPECT_EQ(difference(layers[rank]->running_mean, (means[0] * 5 + means[1] * 2) / 7, 1e-14), "");
    EXPECT_EQ(difference(layers[rank]->running_var, (vars[0] * 5 + vars[1] * 2) / 7, 1e-14), "");
  }
}

TEST(BatchNorm, ASingleValueAChannelIsAClearError) {
  const auto layer = make_layer(3);
  try {
    static_cast<void>(layer->forward(random_input({1, 3})));
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("last_batch"), std::string::npos);
  }
  layer->set_mode(StatisticsMode::kRunning);
  EXPECT_NO_THROW(static_cast<void>(layer->forward(random_input({1, 3}))));
}

// Splits one batch over fake ranks that run one after another: each rank first leaves its row, then
// sees all rows.
class FakeRanks {
 public:
  explicit FakeRanks(int world_size) : world_size_(world_size) {}

  std::shared_ptr<RankReduction> reduction(int rank) {
    auto out = std::make_shared<RankReduction>();
    out->rank = rank;
    out->world_size = world_size_;
    out->sum = [this](at::Tensor& tensor) {
      if (collecting_) {
        total_ = total_.defined() ? total_ + tensor : tensor.clone();
      } else {
        tensor.copy_(total_);
      }
    };
    return out;
  }
  void collect() {
    collecting_ = true;
    total_ = at::Tensor();
  }
  void replay() { collecting_ = false; }

 private:
  int world_size_;
  bool collecting_ = true;
  at::Tensor total_;
};

struct Result {
  at::Tensor output, grad_input, grad_weight, grad_bias, mean, var;
};

Result run_whole(const at::Tensor& whole, const at::Tensor& target) {
  const auto layer = make_layer(whole.size(1));
  at::Tensor input = whole.clone().requires_grad_(true);
  const at::Tensor output = layer->forward(input);
  (output * target).sum().backward();
  PendingStatistics(*layer).commit(kApplied);
  return {output.detach(),    input.grad(),        layer->weight.grad(),
          layer->bias.grad(), layer->running_mean, layer->running_var};
}

// The synchronised layer on each part; forward and backward each run once to collect and once to
// use the sums.
Result run_split(const at::Tensor& whole, const at::Tensor& target,
                 const std::vector<std::int64_t>& sizes) {
  FakeRanks ranks(static_cast<int>(sizes.size()));
  const auto parts = whole.split_with_sizes(sizes);
  const auto targets = target.split_with_sizes(sizes);
  std::vector<std::shared_ptr<BatchNorm>> layers;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs(sizes.size());
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    layers.push_back(make_layer(whole.size(1)));
    layers.back()->synchronize(ranks.reduction(static_cast<int>(rank)));
    inputs.push_back(parts[rank].detach().clone().requires_grad_(true));
  }
  const auto forward_all = [&] {
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      PendingStatistics(*layers[rank]).drop();
      outputs[rank] = layers[rank]->forward(inputs[rank]);
    }
  };
  const auto backward_all = [&] {
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      inputs[rank].mutable_grad() = at::Tensor();
      layers[rank]->weight.mutable_grad() = at::Tensor();
      layers[rank]->bias.mutable_grad() = at::Tensor();
      (outputs[rank] * targets[rank]).sum().backward({}, /*retain_graph=*/true);
    }
  };
  ranks.collect();
  forward_all();
  ranks.replay();
  forward_all();
  ranks.collect();
  backward_all();
  ranks.replay();
  backward_all();
  Result result;
  std::vector<at::Tensor> gradients;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    PendingStatistics(*layers[rank]).commit(kApplied);
    gradients.push_back(inputs[rank].grad());
    const auto add = [&](at::Tensor& sum, const at::Tensor& part) {
      sum = sum.defined() ? sum + part : part;
    };
    add(result.grad_weight, layers[rank]->weight.grad());
    add(result.grad_bias, layers[rank]->bias.grad());
    EXPECT_TRUE(at::equal(layers[rank]->running_mean, layers[0]->running_mean));
    EXPECT_TRUE(at::equal(layers[rank]->running_var, layers[0]->running_var));
  }
  result.output = at::cat(outputs).detach();
  result.grad_input = at::cat(gradients);
  result.mean = layers[0]->running_mean;
  result.var = layers[0]->running_var;
  return result;
}

void expect_equal(const Result& actual, const Result& expected) {
  constexpr double kTolerance = 1e-12;
  EXPECT_EQ(difference(actual.output, expected.output, kTolerance), "");
  EXPECT_EQ(difference(actual.grad_input, expected.grad_input, kTolerance), "");
  EXPECT_EQ(difference(actual.grad_weight, expected.grad_weight, kTolerance), "");
  EXPECT_EQ(difference(actual.grad_bias, expected.grad_bias, kTolerance), "");
  EXPECT_EQ(difference(actual.mean, expected.mean, kTolerance), "");
  EXPECT_EQ(difference(actual.var, expected.var, kTolerance), "");
}

TEST(SyncBatchNorm, EqualsOneProcessForUnevenAndEmptyParts) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{5, 3}, {1, 1}, {8, 0}, {0, 3}, {2, 0, 4}}) {
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) {
      total += size;
    }
    const at::Tensor images = random_input({total, 3, 4, 5}) + 10;
    const at::Tensor target = random_input({total, 3, 4, 5}, 1);
    expect_equal(run_split(images, target, sizes), run_whole(images, target));
    const at::Tensor permuted = images.permute({0, 1, 3, 2});
    expect_equal(run_split(permuted, target.permute({0, 1, 3, 2}), sizes),
                 run_whole(permuted, target.permute({0, 1, 3, 2})));
    const at::Tensor channels_last = images.contiguous(at::MemoryFormat::ChannelsLast);
    expect_equal(run_split(channels_last, target, sizes), run_whole(images, target));
    if (total == 2) {
      continue;  // a rank alone would hold a single value of each feature while the sums are
                 // collected
    }
    const at::Tensor features = images.mean({2, 3});
    const at::Tensor feature_target = target.mean({2, 3});
    expect_equal(run_split(features, feature_target, sizes), run_whole(features, feature_target));
  }
}

TEST(SyncBatchNorm, RefusesASecondDerivative) {
  FakeRanks ranks(2);
  const auto layer = make_layer(3);
  layer->synchronize(ranks.reduction(0));
  at::Tensor input = random_input({4, 3}).requires_grad_(true);
  const at::Tensor loss = layer->forward(input).pow(2).sum();
  EXPECT_THROW(torch::autograd::grad({loss}, {input}, {}, true, /*create_graph=*/true),
               std::runtime_error);
}

TEST(SyncBatchNorm, RunningModeIssuesNoCollective) {
  const auto layer = make_layer(3);
  auto reduction = std::make_shared<RankReduction>();
  reduction->world_size = 2;
  int calls = 0;
  reduction->sum = [&](at::Tensor&) { ++calls; };
  layer->synchronize(reduction);
  layer->set_mode(StatisticsMode::kRunning);
  layer->forward(random_input({4, 3}).requires_grad_(true)).sum().backward();
  EXPECT_EQ(calls, 0);
}

TEST(BatchNorm, TheCountOfBatchesStaysAnInteger) {
  const auto net = testing_support::make_reference_net("cnn");
  net->to(at::kDouble);
  net->to(at::Device(at::kCPU), at::kFloat);
  net->forward(at::rand({2, 3, 8, 8}));
  PendingStatistics(*net).commit(at::ones({}, at::kBool));
  const at::Tensor count = net->named_buffers()["bn1.num_batches_tracked"];
  EXPECT_EQ(count.scalar_type(), at::kLong);
  EXPECT_EQ(count.item<std::int64_t>(), 1);
  EXPECT_EQ(net->named_buffers()["bn1.running_mean"].scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace temper
