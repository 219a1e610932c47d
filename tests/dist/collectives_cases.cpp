// What an update costs in collectives, read off the process group itself. The table "Collectives of
// an update" in docs/architecture.md holds the same numbers.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/cases.h"
#include "support/reference_nets.h"
#include "support/small_training.h"
#include "temper/core/error.h"
#include "temper/methods/catalog.h"
#include "train/update_summary.h"

namespace temper::testing_support {
namespace {

using Records = std::vector<CollectiveRecord>;

// How often each kind of collective occurs.
using Counts = std::map<std::string, std::int64_t>;

std::string kind(const std::string& operation, const std::string& dtype, std::int64_t numel) {
  return concat(operation, " ", dtype, " x ", numel);
}

std::string sum_of(std::int64_t numel) { return kind("all_reduce_sum", "float64", numel); }

Counts count(const Records& records) {
  Counts counts;
  for (const CollectiveRecord& record : records) {
    ++counts[kind(record.operation, record.dtype, record.numel)];
  }
  return counts;
}

std::string describe(const Counts& counts) {
  std::string text;
  for (const auto& [name, times] : counts) {
    text += concat(text.empty() ? "" : ", ", times, " * ", name);
  }
  return text.empty() ? "nothing" : text;
}

void require_counts(const Records& records, const Counts& expected, const std::string& where) {
  const Counts actual = count(records);
  require(actual == expected, where, " issued ", describe(actual), "; expected ",
          describe(expected));
}

// Sorts the records of a training by the update and the phase that issued them.
class PhaseRecords {
 public:
  explicit PhaseRecords(const CollectiveLog& log) : log_(log), mark_(log.size()) {}

  void enter(const std::string& phase, std::int64_t update) {
    const Records records = log_.records(mark_);
    mark_ += records.size();
    Records& place = phases_[{update_, phase_}];
    place.insert(place.end(), records.begin(), records.end());
    update_ = update;
    phase_ = phase;
  }
  // Takes them out, so that what is left was expected by nobody.
  Records take(std::int64_t update, const std::string& phase) {
    const auto node = phases_.extract({update, phase});
    return node.empty() ? Records{} : node.mapped();
  }
  void require_nothing_left() const {
    for (const auto& [place, records] : phases_) {
      require_counts(records, {}, concat("update ", place.first, ", phase '", place.second, "'"));
    }
  }

 private:
  const CollectiveLog& log_;
  std::size_t mark_;
  std::int64_t update_ = 0;
  std::string phase_ = "start";
  std::map<std::pair<std::int64_t, std::string>, Records> phases_;
};

// Sizes of the net that a SmallTraining trains.
struct NetSizes {
  std::vector<std::int64_t> batch_norm_channels;
  std::int64_t parameters = 0;
  std::int64_t weights = 0;  // that a weight perturbation moves
  std::int64_t tensors = 0;  // parameters and buffers

  explicit NetSizes(const std::string& name) {
    const auto net = make_reference_net(name);
    for (const BatchNorm* layer : net->batch_norms()) {
      batch_norm_channels.push_back(layer->running_mean.numel());
    }
    for (const at::Tensor& parameter : net->parameters()) {
      parameters += parameter.numel();
      weights += parameter.dim() > 1 ? parameter.numel() : 0;
    }
    tensors = static_cast<std::int64_t>(state_dict(*net).size());
  }
};

// Forwards of a micro-batch that a backward pass follows. Every method of the catalog is here.
int outer_forwards(const std::string& method) {
  const std::map<std::string, int> forwards{{"standard", 1}, {"pgd_at", 1},  {"mixed", 2},
                                            {"trades", 2},   {"mart", 2},    {"fgsm_rs", 1},
                                            {"n_fgsm", 1},   {"apgd_at", 1}, {"free", 1}};
  return forwards.at(method);
}

// Forwards and backward passes of the attack on a micro-batch.
std::pair<std::int64_t, std::int64_t> attack_passes(const SmallTraining& options) {
  if (options.method == "standard" || options.method == "free") {
    return {0, 0};
  }
  if (options.method == "apgd_at") {
    return {3, 2};  // the start and two steps, the last one without a gradient
  }
  const bool one_step = options.method == "fgsm_rs" || options.method == "n_fgsm";
  const std::int64_t steps = one_step ? 1 : options.attack_steps;
  return {options.method == "trades" ? steps + 1 : steps, steps};
}

// What synchronised layers send: one collective a forward, one a backward pass.
void add_synchronized_layers(Counts& counts, const NetSizes& net, int world_size,
                             std::int64_t forwards, std::int64_t backwards) {
  for (const std::int64_t channels : net.batch_norm_channels) {
    counts[sum_of(world_size * (2 * channels + 1))] += forwards;
    if (backwards > 0) {
      counts[sum_of(2 * channels)] += backwards;
    }
  }
}

Counts expected_of_attack(const SmallTraining& options, const NetSizes& net, int world_size,
                          std::int64_t micro_batches) {
  Counts counts;
  const auto [forwards, backwards] = attack_passes(options);
  if (options.synchronized_batch_norm && options.attack_statistics != StatisticsMode::kRunning &&
      forwards > 0) {
    add_synchronized_layers(counts, net, world_size, forwards * micro_batches,
                            backwards * micro_batches);
  }
  return counts;
}

Counts expected_of_gradients(const SmallTraining& options, const NetSizes& net, int world_size,
                             std::int64_t micro_batches) {
  Counts counts;
  const bool perturbs = options.weight_perturbation.has_value();
  if (options.synchronized_batch_norm) {
    const std::int64_t forwards =
        outer_forwards(options.method) * micro_batches * (perturbs ? 2 : 1);
    add_synchronized_layers(counts, net, world_size, forwards, forwards);
  }
  if (perturbs) {
    counts[sum_of(net.weights)] += micro_batches;
  }
  ++counts[sum_of(net.parameters)];  // the net fits one bucket
  return counts;
}

std::int64_t summary_size(const SmallTraining& options, const NetSizes& net, int world_size) {
  std::int64_t size = kFieldCount + world_size;
  for (const std::int64_t channels : net.batch_norm_channels) {
    size += options.synchronized_batch_norm ? 0 : 2 * channels + 1;
  }
  return size;
}

void require_same_on_all_ranks(RankWorld& world, const Records& records) {
  std::string text;
  for (const CollectiveRecord& record : records) {
    text += to_string(record) + "\n";
  }
  require(broadcast_text(world.communicator, text) == text,
          "this rank's collectives are not those of rank 0:\n", text);
}

void require_cost(RankWorld& world, SmallTraining options) {
  const NetSizes net(options.net);
  const std::size_t first = world.collectives.size();
  PhaseRecords records(world.collectives);
  options.enter_phase = [&](std::string_view phase, std::int64_t update) {
    records.enter(std::string(phase), update);
  };
  const std::int64_t updates = run_small_training(world.communicator, options).updates;
  records.enter("end", updates);
  const Records all = world.collectives.records(first);

  const std::string setting =
      concat(options.method, options.synchronized_batch_norm ? ", sync" : ", local",
             ", accumulation ", options.accumulation, options.overlap ? "" : ", plain reduction");
  // Names and shapes of the parameters.
  require_counts(records.take(0, "start"), {{kind("all_reduce_sum", "int64", world.world_size), 1}},
                 setting + ": the start");
  const bool compares = !options.compare_replicas_every.is_zero();
  for (std::int64_t update = 0; compares && update <= updates; ++update) {
    const std::int64_t sums = world.world_size * net.tensors;
    require_counts(records.take(update, "compare replicas"),
                   {{kind("all_reduce_sum", "int64", sums), 1}},
                   concat(setting, ", comparison at update ", update));
  }
  for (std::int64_t update = 1; update <= updates; ++update) {
    const std::string where = concat(setting, ", update ", update);
    const auto micro_batches = static_cast<std::int64_t>(options.accumulation);
    require_counts(records.take(update, "attack"),
                   expected_of_attack(options, net, world.world_size, micro_batches),
                   where + ": the attack");
    require_counts(records.take(update, "forward_backward"),
                   expected_of_gradients(options, net, world.world_size, micro_batches),
                   where + ": forward and backward");
    require_counts(records.take(update, "communication"),
                   {{sum_of(summary_size(options, net, world.world_size)), 1}},
                   where + ": the summary");
  }
  constexpr std::int64_t kLoaderStatistics = 8;
  require_counts(records.take(updates, "optimizer"), {{sum_of(kLoaderStatistics), 1}},
                 setting + ": how the epoch was loaded");
  // The outcome of the only save, then the counts and times of the validation.
  Counts save{{kind("broadcast", "int64", 1), 1},
              {kind("all_reduce_sum", "int64", 9), 1},
              {kind("all_reduce_max", "float64", 1), 1}};
  if (options.method == "free") {  // the rows of the noise of each micro-batch, and the noise
    const auto micro_batches = static_cast<std::int64_t>(options.accumulation);
    const auto rows = static_cast<std::int64_t>(options.global_batch);
    save[sum_of(1)] += micro_batches;
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      const std::int64_t own = rows / micro_batches + (i < rows % micro_batches ? 1 : 0);
      ++save[sum_of(own * 3 * 8 * 8)];
    }
  }
  require_counts(records.take(updates, "save checkpoint"), save, setting + ": save and validation");
  records.require_nothing_left();
  require_same_on_all_ranks(world, all);
}

void cost_of_methods(RankWorld& world) {
  for (const std::string& method : built_in_methods().names()) {
    for (const bool synchronized : {false, true}) {
      for (const std::uint64_t accumulation : {1, 3}) {
        require_cost(world, {.method = method,
                             .synchronized_batch_norm = synchronized,
                             .samples = 21,
                             .global_batch = 8,
                             .accumulation = accumulation,
                             .epochs = 1});
      }
    }
  }
}

void cost_of_weight_perturbation(RankWorld& world) {
  for (const std::string method : {"pgd_at", "trades", "mart"}) {
    for (const bool synchronized : {false, true}) {
      require_cost(world, {.method = method,
                           .synchronized_batch_norm = synchronized,
                           .weight_perturbation = WeightPerturbationOptions{},
                           .accumulation = 2,
                           .epochs = 1});
    }
  }
}

void cost_of_attacks_with_batch_statistics(RankWorld& world) {
  for (const std::string& method : built_in_methods().names()) {
    for (const bool synchronized : {false, true}) {
      require_cost(world, {.method = method,
                           .synchronized_batch_norm = synchronized,
                           .epochs = 1,
                           .attack_statistics = StatisticsMode::kBatch});
    }
  }
}

void cost_of_the_plain_reduction(RankWorld& world) {
  require_cost(world, {.overlap = false, .epochs = 1});
}

void cost_of_the_replica_comparison(RankWorld& world) {
  require_cost(world, {.epochs = 1, .compare_replicas_every = {1, Period::Unit::kUpdates}});
}

// A model of several buckets: together they carry each gradient once.
void buckets_carry_each_gradient_once(RankWorld& world) {
  constexpr std::int64_t kSize = 200000;  // 1.6 MB: the first bucket is full with one
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (int i = 0; i < 3; ++i) {
    parameters.emplace_back(concat("w", i), at::ones({kSize}, at::kDouble).set_requires_grad(true));
  }
  const auto reducer = make_gradient_reducer(parameters, world.communicator, {});
  const Counts expected{{sum_of(kSize), 1}, {sum_of(2 * kSize), 1}};
  for (int update = 0; update < 3; ++update) {
    const std::size_t mark = world.collectives.size();
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (const auto& [name, tensor] : parameters) {
      loss = loss + tensor.sum() * (world.rank + 1);
    }
    reducer->backward(loss);
    require_counts(world.collectives.records(mark), expected, concat("backward ", update));
    for (const auto& [name, tensor] : parameters) {
      const int sum = world.world_size * (world.world_size + 1) / 2;
      require(tensor.grad().eq(sum).all().item<bool>(), name, " has the wrong gradient");
      tensor.grad().zero_();
    }
  }
}

class RefusingObserver final : public CollectiveObserver {
 public:
  void before_collective(const CollectiveRecord& record) override {
    if (record.operation == "all_reduce_max") {
      throw std::logic_error(concat("refused ", to_string(record)));
    }
  }
};

// What a check of the collectives needs: it can keep one from starting, and the next one works.
void observer_can_refuse(RankWorld& world) {
  std::optional<Store> host;
  if (world.rank == 0) {
    host.emplace(
        Store::host({.world_size = world.world_size, .listening_descriptor = std::nullopt}));
  }
  const std::string port =
      broadcast_text(world.communicator, host ? std::to_string(host->port()) : std::string());
  Store store = Store::connect("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port)),
                               std::chrono::seconds(30));
  const auto communicator =
      make_communicator(&store, {.rank = world.rank,
                                 .world_size = world.world_size,
                                 .timeout = std::chrono::seconds(30),
                                 .observer = std::make_shared<RefusingObserver>()});
  at::Tensor value = at::full({2}, world.rank, at::kFloat);
  std::string message;
  try {
    communicator->all_reduce_max(value);
  } catch (const std::logic_error& error) {
    message = error.what();
  }
  require(message == "refused #1 all_reduce_max float32 [2] at update 0", "the observer said '",
          message, "'");
  require(value.eq(world.rank).all().item<bool>(), "the refused collective ran");
  communicator->all_reduce_sum(value);
  require(value.eq(world.world_size * (world.world_size - 1) / 2).all().item<bool>(),
          "the sum after it is wrong");
  static_cast<void>(any_rank(world.communicator, false));  // the host of the store ends last
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, OfAnUpdateAreTheBucketsAndOneMore) {
  expect_ranks_pass("cost_of_methods", GetParam());
}
TEST_P(Collectives, OfAnAttackWithBatchStatisticsAreFixed) {
  expect_ranks_pass("cost_of_attacks", GetParam());
}
TEST_P(Collectives, OfAWeightPerturbationAreOneMoreAndItsForwards) {
  expect_ranks_pass("cost_of_perturbation", GetParam());
}
TEST_P(Collectives, OfThePlainReductionAreTwo) { expect_ranks_pass("cost_plain", GetParam()); }
TEST_P(Collectives, OfAReplicaComparisonAreOne) {
  expect_ranks_pass("cost_comparison", GetParam());
}
TEST_P(Collectives, BucketsCarryEachGradientOnce) { expect_ranks_pass("buckets", GetParam()); }
TEST_P(Collectives, CanBeRefusedByTheObserver) { expect_ranks_pass("observer", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(2, 3),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

}  // namespace

void add_collectives_cases(RankCases& cases) {
  cases["cost_of_methods"] = cost_of_methods;
  cases["cost_of_perturbation"] = cost_of_weight_perturbation;
  cases["cost_of_attacks"] = cost_of_attacks_with_batch_statistics;
  cases["cost_plain"] = cost_of_the_plain_reduction;
  cases["cost_comparison"] = cost_of_the_replica_comparison;
  cases["buckets"] = buckets_carry_each_gradient_once;
  cases["observer"] = observer_can_refuse;
}

}  // namespace temper::testing_support
