// Several processes equal one: acceptance cases 1 and 3 of the distributed semantics.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/cases.h"
#include "support/reference_nets.h"
#include "support/small_training.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"
#include "temper/methods/catalog.h"
#include "temper/models/architectures.h"
#include "temper/optim/gradients.h"

namespace temper::testing_support {
namespace {

constexpr double kTolerance = 1e-9;

std::unique_ptr<Communicator> alone() { return make_communicator(nullptr, {}); }

void require_same_course(const std::vector<TrainRecord>& together,
                         const std::vector<TrainRecord>& single) {
  require(together.size() == single.size(), together.size(), " updates instead of ", single.size());
  for (std::size_t i = 0; i < single.size(); ++i) {
    require(together[i].update == single[i].update && together[i].samples == single[i].samples,
            "update ", i, " used other samples");
    require(together[i].learning_rate == single[i].learning_rate, "another learning rate at ", i);
    require(std::abs(together[i].loss - single[i].loss) < kTolerance, "another loss at ", i);
    require(together[i].adversarial_accuracy == single[i].adversarial_accuracy ||
                std::isnan(single[i].adversarial_accuracy),
            "another accuracy at ", i);
  }
}

// Trains over the ranks, and once more alone on the main rank.
void require_equals_one_process(RankWorld& world, const SmallTraining& options) {
  const TrainingResult together = run_small_training(world.communicator, options);
  const TrainingResult single = run_small_training(*alone(), options);
  require_equal_states(together.state, single.state, kTolerance);
  require_equal_states(together.average, single.average, kTolerance);
  require_same_course(together.records, single.records);
  require(together.validation.samples == single.validation.samples, "samples ",
          together.validation.samples);
  require(together.validation.clean_correct == single.validation.clean_correct,
          "clean counts differ");
  require(
      together.validation.attacks[0].robust_correct == single.validation.attacks[0].robust_correct,
      "robust counts differ");
}

RankCase equality(const SmallTraining& options) {
  return [options](RankWorld& world) { require_equals_one_process(world, options); };
}

struct Replica {
  std::shared_ptr<Classifier> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<PendingStatistics> statistics;
};

Replica make_replica() {
  Replica replica;
  replica.model = make_reference_net("cnn");
  initialize(*replica.model, 11);
  replica.model->to(at::kDouble);
  std::vector<NamedParameter> named;
  for (const auto& item : replica.model->named_parameters()) {
    named.push_back({.name = item.key(), .tensor = item.value()});
  }
  replica.optimizer = make_sgd(named, {.weight_decay = 5e-4});
  replica.statistics = std::make_unique<PendingStatistics>(*replica.model);
  return replica;
}

// Gives all replicas the mean of their tensors.
void average(std::vector<std::vector<at::Tensor>> tensors) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors[0].size(); ++i) {
    if (!tensors[0][i].is_floating_point()) {
      continue;
    }
    const at::Tensor mean = (tensors[0][i] + tensors[1][i]) / 2;
    tensors[0][i].copy_(mean);
    tensors[1][i].copy_(mean);
  }
}

// Two replicas in one process, each with its half of every batch; gradients and running statistics
// are averaged after the backward passes, by plain arithmetic.
StateDict train_two_replicas(const SmallTraining& options) {
  const RandomDataset data(options.samples);
  std::vector<Replica> replicas;
  replicas.push_back(make_replica());
  replicas.push_back(make_replica());
  const auto attack = std::make_shared<PgdAttack>(
      ThreatModel{.epsilon = 0.05}, PgdOptions{.steps = options.attack_steps, .step_size = 0.02});
  const auto method = built_in_methods().make(options.method, attack,
                                              {.beta = 2, .statistics = phase_statistics(options)});
  const LoaderOptions loading{.threads = 1, .seed = options.seed, .image_size = 8};
  std::uint32_t update = 0;
  for (std::uint32_t epoch = 0; epoch < static_cast<std::uint32_t>(options.epochs); ++epoch) {
    for (std::uint64_t u = 0; u < options.samples / options.global_batch; ++u, ++update) {
      std::vector<std::vector<at::Tensor>> gradients(2);
      std::vector<std::vector<at::Tensor>> buffers(2);
      for (int rank = 0; rank < 2; ++rank) {
        ShardedSampler sampler({.dataset_size = options.samples,
                                .global_batch_size = options.global_batch,
                                .rank = rank,
                                .world_size = 2,
                                .seed = options.seed});
        Loader loader(data, Transform({RandomCrop{.size = 8, .padding = 1}, HorizontalFlip{}}),
                      loading);
        loader.start(epoch, {sampler.global_batch(epoch, u).micro_batches[0].samples});
        Replica& replica = replicas[static_cast<std::size_t>(rank)];
        zero_gradients(replica.model->parameters());
        const double local = static_cast<double>(options.global_batch) / 2;
        StepContext context{
            .model = *replica.model,
            .seed = options.seed,
            .epoch = epoch,
            .update = update,
            .backward = [&](const at::Tensor& loss_sum) { (loss_sum / local).backward(); }};
        const HostBatch batch = loader.next();
        static_cast<void>(
            method->compute_gradients(context, to_device(batch, {.dtype = at::kDouble})));
        replica.statistics->commit(at::ones({}, at::kBool));
        for (const at::Tensor& parameter : replica.model->parameters()) {
          gradients[static_cast<std::size_t>(rank)].push_back(parameter.grad());
        }
        buffers[static_cast<std::size_t>(rank)] = replica.model->buffers();
      }
      average(gradients);
      average(buffers);
      for (Replica& replica : replicas) {
        replica.optimizer->step(0.1, at::zeros({}));
      }
    }
  }
  return state_dict(*replicas[0].model);
}

void local_batch_norm_equals_averaged_replicas(RankWorld& world, const std::string& method) {
  SmallTraining options{.method = method, .synchronized_batch_norm = false};
  const TrainingResult together = run_small_training(world.communicator, options);
  require_equal_states(together.state, train_two_replicas(options), kTolerance);
}

void require_replicas_equal(RankWorld& world, const StateDict& state) {
  for (const auto& [name, tensor] : state) {
    at::Tensor of_main_rank = tensor.clone();
    world.communicator.broadcast(of_main_rank, 0);
    require(at::equal(of_main_rank, tensor), name, " differs from rank 0");
  }
}

void replicas_are_bit_identical(RankWorld& world) {
  for (const bool synchronized : {true, false}) {
    const TrainingResult result = run_small_training(
        world.communicator, {.synchronized_batch_norm = synchronized, .samples = 37});
    require_replicas_equal(world, result.state);
  }
}

void runs_are_bit_identical(RankWorld& world) {
  const TrainingResult first = run_small_training(world.communicator, {.loader_threads = 1});
  for (const int threads : {1, 2, 4}) {
    const TrainingResult again =
        run_small_training(world.communicator, {.loader_threads = threads});
    require_equal_states(again.state, first.state, 0);
  }
}

// The last rank alone is asked to stop: all stop after the same update, with the same weights.
void one_rank_stops_all(RankWorld& world) {
  const bool asked = world.rank == world.world_size - 1;
  int calls = 0;
  const TrainingResult result = run_small_training(
      world.communicator, {.epochs = 20, .stop_requested = [&] {
                             return asked && ++calls > 10 ? StopReason::kTerminate
                                                          : StopReason::kFinished;
                           }});
  require(result.stop == StopReason::kTerminate, "the training was not stopped");
  require(result.updates > 0 && result.updates < 10, "stopped after ", result.updates, " updates");
  at::Tensor updates = at::full({}, result.updates, at::kLong);
  world.communicator.broadcast(updates, 0);
  require(updates.item<std::int64_t>() == result.updates, "rank 0 stopped after another update");
  require_replicas_equal(world, result.state);
}

void overlapping_equals_plain_reduction(RankWorld& world) {
  const TrainingResult overlapping = run_small_training(world.communicator, {.samples = 37});
  const TrainingResult plain =
      run_small_training(world.communicator, {.overlap = false, .samples = 37});
  require_equal_states(overlapping.state, plain.state, 1e-12);
}

// 37 samples in batches of 8 with 3 micro-batches: micro-batches of 2 and 3, a last batch of 5.
SmallTraining awkward(const std::string& method) {
  return {.method = method, .samples = 37, .global_batch = 8, .accumulation = 3};
}

SmallTraining mixed_samples(const std::string& method, double mixup, double cutmix) {
  SmallTraining options = awkward(method);
  options.mixup = mixup;
  options.cutmix = cutmix;
  options.label_smoothing = 0.1;
  return options;
}

SmallTraining perturbed(const std::string& method, std::uint64_t accumulation) {
  return {.method = method,
          .weight_perturbation = WeightPerturbationOptions{.gamma = 0.02},
          .samples = 37,
          .global_batch = 8,
          .accumulation = accumulation};
}

const std::map<std::string, SmallTraining>& equality_settings() {
  const ScheduleOptions cosine{.kind = ScheduleOptions::Kind::kCosine, .warmup = 2};
  static const std::map<std::string, SmallTraining> settings{
      {"trades", {.method = "trades"}},
      {"mixed", {.method = "mixed"}},
      {"pgd_at", {.method = "pgd_at", .label_smoothing = 0.1, .schedule = cosine}},
      {"standard", {.method = "standard"}},
      {"trades_mlp", {.method = "trades", .net = "mlpbn"}},
      {"trades_batch_statistics_attack",
       {.method = "trades", .attack_statistics = StatisticsMode::kBatch}},
      {"pgd_at_updating_attack",
       {.method = "pgd_at", .attack_statistics = StatisticsMode::kUpdate}},
      // One loss over forwards with running and with batch statistics.
      {"trades_running_clean_forward",
       {.method = "trades",
        .clean_statistics = StatisticsMode::kRunning,
        .adversarial_statistics = StatisticsMode::kUpdate}},
      {"trades_dropout_average",
       {.method = "trades", .net = "dropout", .average = WeightAverageOptions{.decay = 0.9}}},
      {"trades_wide_cnn",
       {.method = "trades",
        .net = "wide_cnn",
        .samples = 9,
        .global_batch = 9,
        .epochs = 1,
        .attack_steps = 1}},
      {"mixed_awkward", awkward("mixed")},
      {"trades_awkward", awkward("trades")},
      {"pgd_at_awkward", awkward("pgd_at")},
      {"trades_mixup", mixed_samples("trades", 0.4, 0)},
      {"pgd_at_cutmix", mixed_samples("pgd_at", 0, 1)},
      {"standard_mixup_and_cutmix", mixed_samples("standard", 0.2, 1)},
      {"trades_extra_data",
       {.method = "trades",
        .samples = 21,
        .extra_samples = 13,
        .global_batch = 8,
        .accumulation = 3}},
      {"mart", awkward("mart")},
      {"mart_mixup", mixed_samples("mart", 0.4, 0)},
      {"fgsm_rs", awkward("fgsm_rs")},
      {"n_fgsm", awkward("n_fgsm")},
      {"apgd_at", awkward("apgd_at")},
      {"free", awkward("free")},
      {"free_cutmix", mixed_samples("free", 0, 1)},
      {"trades_l2", {.method = "trades", .norm = Norm::kL2}},
      {"pgd_at_l1", {.method = "pgd_at", .norm = Norm::kL1}},
      {"free_l2", {.method = "free", .norm = Norm::kL2}},
      {"awp_pgd_at", perturbed("pgd_at", 1)},
      {"awp_trades", perturbed("trades", 3)},
      {"awp_mart", perturbed("mart", 1)},
      {"trades_start_and_warmup",
       {.method = "trades", .epsilon_warmup = 3, .start_epoch = 1, .epochs = 3}},
  };
  return settings;
}

class EqualsOneProcess : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EqualsOneProcess, ToRounding) {
  expect_ranks_pass("equality_" + std::get<0>(GetParam()), std::get<1>(GetParam()));
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const auto& [name, options] : equality_settings()) {
    names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Methods, EqualsOneProcess,
                         testing::Combine(testing::ValuesIn(setting_names()),
                                          testing::Values(1, 2, 3)),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param) + "_" +
                                  std::to_string(std::get<1>(parameter.param)) + "_ranks";
                         });

TEST(LocalBatchNorm, TradesEqualsTwoAveragedReplicas) { expect_ranks_pass("local_trades", 2); }
TEST(LocalBatchNorm, MixedEqualsTwoAveragedReplicas) { expect_ranks_pass("local_mixed", 2); }
TEST(LocalBatchNorm, PgdAtEqualsTwoAveragedReplicas) { expect_ranks_pass("local_pgd_at", 2); }
TEST(Replicas, AreBitIdentical) { expect_ranks_pass("replicas", 2); }
TEST(Replicas, StopTogetherWhenOneIsAsked) { expect_ranks_pass("one_stops", 2); }
TEST(Runs, AreBitIdenticalForAnyNumberOfLoaderThreads) { expect_ranks_pass("runs", 2); }
TEST(Runs, AreBitIdenticalOnThreeRanks) { expect_ranks_pass("runs", 3); }
TEST(GradientReducer, OverlappingEqualsPlain) { expect_ranks_pass("reducers", 2); }

}  // namespace

void add_equality_cases(RankCases& cases) {
  for (const auto& [name, options] : equality_settings()) {
    cases["equality_" + name] = equality(options);
  }
  for (const std::string method : {"trades", "mixed", "pgd_at"}) {
    cases["local_" + method] = [method](RankWorld& world) {
      local_batch_norm_equals_averaged_replicas(world, method);
    };
  }
  cases["replicas"] = replicas_are_bit_identical;
  cases["one_stops"] = one_rank_stops_all;
  cases["runs"] = runs_are_bit_identical;
  cases["reducers"] = overlapping_equals_plain_reduction;
}

}  // namespace temper::testing_support
