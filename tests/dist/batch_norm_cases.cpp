// Synchronised batch norm equals one process in every split, layout and mode: acceptance case 11.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "dist/cases.h"
#include "support/small_training.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper::testing_support {
namespace {

constexpr double kTolerance = 1e-10;
constexpr std::int64_t kChannels = 3;

enum class Layout { kContiguous, kChannelsLast, kPermuted };

struct Setting {
  std::vector<std::int64_t> split;  // samples of each rank
  bool images = true;               // [N, C, H, W], else [N, C]
  bool affine = true;
  Layout layout = Layout::kContiguous;
  StatisticsMode mode = StatisticsMode::kUpdate;
};

std::string name(const Setting& setting) {
  std::string split;
  for (const std::int64_t samples : setting.split) {
    split += concat(split.empty() ? "" : ",", samples);
  }
  return concat("split (", split, "), ", setting.images ? "2-d" : "1-d",
                setting.affine ? ", affine" : ", not affine", ", layout ",
                static_cast<int>(setting.layout), ", mode ", static_cast<int>(setting.mode));
}

std::int64_t total(const std::vector<std::int64_t>& split) {
  return std::accumulate(split.begin(), split.end(), std::int64_t{0});
}

// All ranks' samples; the values do not depend on the layout.
at::Tensor random_whole(const Setting& setting, std::uint8_t layer) {
  const std::vector<std::int64_t> shape =
      setting.images ? std::vector<std::int64_t>{kChannels, 4, 5} : std::vector{kChannels};
  return normal_tensor({.seed = 6, .layer = layer}, at::arange(total(setting.split)), shape,
                       at::kDouble) *
             2 +
         3;
}

// The same values with other strides; a leaf of the graph.
at::Tensor with_layout(const at::Tensor& values, Layout layout) {
  at::Tensor out = values.clone();
  if (layout == Layout::kChannelsLast) {
    out = values.contiguous(at::MemoryFormat::ChannelsLast).clone();
  } else if (layout == Layout::kPermuted) {
    out = values.transpose(0, values.dim() - 1).contiguous().transpose(0, values.dim() - 1);
  }
  return out;
}

std::shared_ptr<BatchNorm> make_layer(RankWorld& world, bool affine) {
  auto layer = std::make_shared<BatchNorm>(kChannels, 1e-5, 0.1, affine);
  layer->to(at::kDouble);
  layer->synchronize(reduction_of(world.communicator));
  const at::NoGradGuard no_grad;
  if (affine) {
    layer->weight.copy_(at::linspace(0.5, 2, kChannels));
    layer->bias.copy_(at::linspace(-1, 1, kChannels));
  }
  layer->running_mean.copy_(at::linspace(-0.3, 0.4, kChannels));
  layer->running_var.copy_(at::linspace(0.7, 1.6, kChannels));
  return layer;
}

struct Outcome {
  at::Tensor output{};
  at::Tensor grad_input{};
  at::Tensor grad_weight{};
  at::Tensor grad_bias{};
  at::Tensor mean{};
  at::Tensor var{};
};

// ATen's batch norm on all samples in this process.
Outcome whole_batch(const BatchNorm& layer, const at::Tensor& whole, const at::Tensor& target,
                    StatisticsMode mode) {
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.detach().clone().set_requires_grad(true) : at::Tensor();
  };
  const at::Tensor input = leaf(whole);
  const at::Tensor weight = leaf(layer.weight);
  const at::Tensor bias = leaf(layer.bias);
  Outcome outcome{.mean = layer.running_mean.clone(), .var = layer.running_var.clone()};
  const bool recorded = mode != StatisticsMode::kBatch;
  const at::Tensor output = at::batch_norm(
      input, weight, bias, recorded ? outcome.mean : at::Tensor(),
      recorded ? outcome.var : at::Tensor(), mode != StatisticsMode::kRunning, 0.1, 1e-5, false);
  (output * target).sum().backward();
  outcome.output = output.detach();
  outcome.grad_input = input.grad();
  if (weight.defined()) {
    outcome.grad_weight = weight.grad();
    outcome.grad_bias = bias.grad();
  }
  return outcome;
}

// What no sample at all should give.
Outcome nothing(const BatchNorm& layer, const at::Tensor& whole) {
  Outcome outcome{.output = whole, .grad_input = whole};
  if (layer.weight.defined()) {
    outcome.grad_weight = at::zeros_like(layer.weight);
    outcome.grad_bias = at::zeros_like(layer.bias);
  }
  outcome.mean = layer.running_mean.clone();
  outcome.var = layer.running_var.clone();
  return outcome;
}

at::Tensor sum_over_ranks(RankWorld& world, const at::Tensor& gradient) {
  at::Tensor sum = gradient.clone();
  world.communicator.all_reduce_sum(sum);
  return sum;
}

void require_same_on_all_ranks(RankWorld& world, const StateDict& state) {
  for (const auto& [what, tensor] : state) {
    at::Tensor of_main_rank = tensor.clone();
    world.communicator.broadcast(of_main_rank, 0);
    require(at::equal(of_main_rank, tensor), what, " differs from rank 0");
  }
}

void check_setting(RankWorld& world, const Setting& setting) {
  const auto rank = static_cast<std::size_t>(world.rank);
  const std::int64_t begin =
      std::accumulate(setting.split.begin(), setting.split.begin() + world.rank, std::int64_t{0});
  const auto own = [&](const at::Tensor& whole) {
    return whole.narrow(0, begin, setting.split[rank]);
  };
  const at::Tensor whole = random_whole(setting, 0);
  const at::Tensor target = random_whole(setting, 1);
  const auto layer = make_layer(world, setting.affine);
  const Outcome expected = total(setting.split) == 0
                               ? nothing(*layer, whole)
                               : whole_batch(*layer, whole, target, setting.mode);
  layer->set_mode(setting.mode);
  layer->train();  // flags of torch mean nothing to the mode
  const at::Tensor input = with_layout(own(whole), setting.layout).set_requires_grad(true);
  const bool batch_statistics = setting.mode != StatisticsMode::kRunning;
  std::size_t before = world.collectives.size();
  const at::Tensor output = layer->forward(input);
  require(world.collectives.size() - before == (batch_statistics ? 1U : 0U), "the forward issued ",
          world.collectives.size() - before, " collectives");
  before = world.collectives.size();
  (output * with_layout(own(target), setting.layout)).sum().backward();
  require(world.collectives.size() - before == (batch_statistics ? 1U : 0U), "the backward issued ",
          world.collectives.size() - before, " collectives");
  PendingStatistics(*layer).commit(at::ones({}, at::kBool));

  StateDict actual{{"output", output.detach()},
                   {"gradient of the input", input.grad()},
                   {"running mean", layer->running_mean},
                   {"running variance", layer->running_var}};
  StateDict wanted{{"output", own(expected.output)},
                   {"gradient of the input", own(expected.grad_input)},
                   {"running mean", expected.mean},
                   {"running variance", expected.var}};
  if (setting.affine) {
    actual.emplace_back("gradient of the weight", sum_over_ranks(world, layer->weight.grad()));
    actual.emplace_back("gradient of the bias", sum_over_ranks(world, layer->bias.grad()));
    wanted.emplace_back("gradient of the weight", expected.grad_weight);
    wanted.emplace_back("gradient of the bias", expected.grad_bias);
  }
  require_equal_states(actual, wanted, kTolerance);
  require(input.grad().sizes() == input.sizes(), "the input's gradient has another shape");
  require_same_on_all_ranks(world, {{"running mean", layer->running_mean},
                                    {"running variance", layer->running_var},
                                    {"num_batches_tracked", layer->num_batches_tracked}});
  if (setting.mode != StatisticsMode::kUpdate) {
    const auto untouched = make_layer(world, setting.affine);
    require(at::equal(layer->running_mean, untouched->running_mean) &&
                at::equal(layer->running_var, untouched->running_var) &&
                layer->num_batches_tracked.item<std::int64_t>() == 0,
            "the statistics moved");
  }
}

std::vector<std::vector<std::int64_t>> splits(int world_size) {
  if (world_size == 2) {
    return {{5, 3}, {1, 1}, {8, 0}, {0, 8}, {0, 0}};
  }
  return {{5, 3, 0}, {1, 1, 1}, {0, 8, 0}, {0, 1, 4}, {0, 0, 0}};
}

void every_setting(RankWorld& world) {
  using enum StatisticsMode;
  for (const auto& split : splits(world.world_size)) {
    for (const bool images : {true, false}) {
      for (const bool affine : {true, false}) {
        for (const Layout layout :
             {Layout::kContiguous, Layout::kChannelsLast, Layout::kPermuted}) {
          if (!images && layout == Layout::kChannelsLast) {
            continue;
          }
          for (const StatisticsMode mode : {kUpdate, kBatch, kRunning}) {
            const Setting setting{split, images, affine, layout, mode};
            try {
              check_setting(world, setting);
            } catch (const std::exception& error) {
              throw std::runtime_error(concat(name(setting), ": ", error.what()));
            }
          }
        }
      }
    }
  }
}

// A layer frozen by its mode stays so through train(), and one backward pass may follow forwards in
// all modes: three of the five take batch statistics.
void mode_changes(RankWorld& world) {
  using enum StatisticsMode;
  const std::vector<StatisticsMode> modes{kRunning, kUpdate, kBatch, kRunning, kUpdate};
  const std::vector<std::int64_t> split =
      world.world_size == 2 ? std::vector<std::int64_t>{5, 3} : std::vector<std::int64_t>{5, 0, 3};
  const Setting setting{.split = split};
  const std::int64_t begin =
      std::accumulate(split.begin(), split.begin() + world.rank, std::int64_t{0});
  const auto own = [&](const at::Tensor& whole) {
    return whole.narrow(0, begin, split[static_cast<std::size_t>(world.rank)]);
  };
  const auto layer = make_layer(world, true);
  const at::Tensor weight = layer->weight.detach().clone().set_requires_grad(true);
  at::Tensor mean = layer->running_mean.clone();
  at::Tensor var = layer->running_var.clone();
  const at::Tensor old_mean = mean.clone();
  const at::Tensor old_var = var.clone();
  at::Tensor loss = at::zeros({}, at::kDouble);
  at::Tensor expected_loss = at::zeros({}, at::kDouble);
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> whole_inputs;
  const std::size_t before = world.collectives.size();
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const at::Tensor whole =
        random_whole(setting, static_cast<std::uint8_t>(i)).set_requires_grad(true);
    whole_inputs.push_back(whole);
    inputs.push_back(own(whole).detach().clone().set_requires_grad(true));
    layer->set_mode(modes[i]);
    i % 2 == 0 ? layer->train() : layer->eval();
    require(layer->mode() == modes[i], "train() changed the mode");
    loss = loss + layer->forward(inputs.back()).pow(3).sum();
    // A running forward sees the statistics of the last commit, not the pending ones.
    const bool running = modes[i] == kRunning;
    const at::Tensor none;
    const at::Tensor& seen_mean = running ? old_mean : modes[i] == kUpdate ? mean : none;
    const at::Tensor& seen_var = running ? old_var : modes[i] == kUpdate ? var : none;
    expected_loss = expected_loss + at::batch_norm(whole, weight, layer->bias.detach(), seen_mean,
                                                   seen_var, !running, 0.1, 1e-5, false)
                                        .pow(3)
                                        .sum();
  }
  PendingStatistics(*layer).commit(at::ones({}, at::kBool));
  loss.backward();
  expected_loss.backward();
  require(world.collectives.size() - before == 6, "issued ", world.collectives.size() - before,
          " collectives");
  for (std::size_t i = 0; i < modes.size(); ++i) {
    require_equal_states({{concat("gradient of input ", i), inputs[i].grad()}},
                         {{concat("gradient of input ", i), own(whole_inputs[i].grad())}},
                         kTolerance);
  }
  require_equal_states({{"gradient of the weight", sum_over_ranks(world, layer->weight.grad())},
                        {"running mean", layer->running_mean},
                        {"running variance", layer->running_var}},
                       {{"gradient of the weight", weight.grad()},
                        {"running mean", mean},
                        {"running variance", var}},
                       kTolerance);
  require(layer->num_batches_tracked.item<std::int64_t>() == 2, "not two updates");
}

// Legal in the synchronised form, when the count over all ranks exceeds one; else a clear error on
// every rank, after the collective.
void single_value_is_refused_by_all(RankWorld& world) {
  const auto layer = make_layer(world, true);
  const std::int64_t samples = world.rank == 0 ? 1 : 0;
  std::string message;
  try {
    static_cast<void>(layer->forward(at::ones({samples, kChannels}, at::kDouble)));
  } catch (const ConfigError& error) {
    message = error.what();
  }
  require(message.find("single value per channel over all ranks") != std::string::npos,
          "the message is '", message, "'");
}

class SyncBatchNorm : public testing::TestWithParam<int> {};

TEST_P(SyncBatchNorm, EqualsOneProcessInEverySplitLayoutAndMode) {
  expect_ranks_pass("batch_norm_settings", GetParam());
}
TEST_P(SyncBatchNorm, ModeChangesBeforeOneBackwardEqualOneProcess) {
  expect_ranks_pass("batch_norm_modes", GetParam());
}
TEST_P(SyncBatchNorm, SingleValueOverAllRanksIsRefusedByAll) {
  expect_ranks_pass("batch_norm_single", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, SyncBatchNorm, testing::Values(2, 3),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

}  // namespace

void add_batch_norm_cases(RankCases& cases) {
  cases["batch_norm_settings"] = every_setting;
  cases["batch_norm_modes"] = mode_changes;
  cases["batch_norm_single"] = single_value_is_refused_by_all;
}

}  // namespace temper::testing_support
