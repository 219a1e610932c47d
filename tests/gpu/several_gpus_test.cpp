// Ranks on GPUs of their own, over NCCL: they train as one process does, keep to their device, and
// take up a checkpoint of another one.

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstdlib>

#include "gpu/gpus.h"
#include "support/compare.h"
#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/core/error.h"

namespace temper::testing_support {
namespace {

constexpr double kTolerance = 1e-9;

SmallTraining on_own_gpu(const RankWorld& world, SmallTraining options) {
  options.placement = on_gpu(world.rank, at::kDouble);
  return options;
}

// No context, and so no memory, on another rank's GPU.
void require_nothing_on_other_gpus(const RankWorld& world) {
  for (int gpu = 0; gpu < visible_gpus(); ++gpu) {
    const bool context = c10::cuda::hasPrimaryContext(static_cast<c10::DeviceIndex>(gpu));
    require(context == (gpu == world.rank), "rank ", world.rank, ": GPU ", gpu,
            context ? " has a context" : " has no context");
  }
}

void require_equals_one_process(RankWorld& world, const SmallTraining& options) {
  const SmallTraining own = on_own_gpu(world, options);
  const TrainingResult together = run_small_training(world.communicator, own);
  require_nothing_on_other_gpus(world);
  const TrainingResult single = run_small_training(*make_communicator(nullptr, {}), own);
  require_equal_states(together.state, single.state, kTolerance);
  require(together.validation.samples == single.validation.samples, "samples ",
          together.validation.samples);
  require(together.validation.clean_correct == single.validation.clean_correct,
          "clean counts differ");
  require(
      together.validation.attacks[0].robust_correct == single.validation.attacks[0].robust_correct,
      "robust counts differ");
}

void require_replicas_equal(RankWorld& world, const StateDict& state) {
  for (const auto& [name, tensor] : state) {
    at::Tensor of_main_rank = tensor.clone();  // on the CPU, so over Gloo
    world.communicator.broadcast(of_main_rank, 0);
    require(at::equal(of_main_rank, tensor), name, " differs from rank 0");
  }
}

void replicas_are_bit_identical(RankWorld& world) {
  for (const bool synchronized : {true, false}) {
    const TrainingResult result = run_small_training(
        world.communicator,
        on_own_gpu(world, {.synchronized_batch_norm = synchronized, .samples = 37}));
    require_replicas_equal(world, result.state);
  }
}

void overlapping_equals_plain_reduction(RankWorld& world) {
  const TrainingResult overlapping = run_small_training(world.communicator, on_own_gpu(world, {}));
  const TrainingResult plain =
      run_small_training(world.communicator, on_own_gpu(world, {.overlap = false}));
  require_equal_states(overlapping.state, plain.state, 1e-12);
}

// The collectives of each backend, on tensors of its device.
void collectives_reach_all_ranks(RankWorld& world) {
  const double expected = world.world_size * (world.world_size + 1) / 2.0;
  for (const at::Device device : {at::Device(at::kCPU), on_gpu(world.rank, at::kFloat).device}) {
    at::Tensor sum = at::full({3}, world.rank + 1.0, at::TensorOptions(at::kDouble).device(device));
    world.communicator.all_reduce_sum(sum);
    require(at::equal(sum.cpu(), at::full({3}, expected, at::kDouble)), "sum on ", device.str());
    at::Tensor from_last = at::full({2}, world.rank, at::TensorOptions(at::kLong).device(device));
    world.communicator.broadcast(from_last, world.world_size - 1);
    require(from_last.max().item<std::int64_t>() == world.world_size - 1, "broadcast on ",
            device.str());
  }
  require_nothing_on_other_gpus(world);
}

// Rank 0 saves from its GPU; every rank goes on with its own.
void checkpoint_of_gpu_0_goes_to_own_gpu(RankWorld& world) {
  const std::filesystem::path folder = std::getenv("TEMPER_TEST_FOLDER");
  SmallTraining options = on_own_gpu(world, {.epochs = 3});
  const TrainingResult whole = run_small_training(world.communicator, options);
  SmallTraining first = options;
  first.max_updates = 2;
  first.checkpoints = folder;
  static_cast<void>(run_small_training(world.communicator, first));
  const Value checkpoint = read_checkpoint(folder / "last.pt");
  options.resume_from = &checkpoint;
  const TrainingResult resumed = run_small_training(world.communicator, options);
  require(resumed.updates == whole.updates, "ended after ", resumed.updates, " updates");
  require_equal_states(resumed.state, whole.state, kTolerance);
  require_nothing_on_other_gpus(world);
}

const std::map<std::string, SmallTraining>& equality_settings() {
  static const std::map<std::string, SmallTraining> settings{
      {"trades", {.method = "trades"}},
      {"mixed", {.method = "mixed"}},
      {"pgd_at", {.method = "pgd_at"}},
      {"standard", {.method = "standard"}},
      {"trades_batch_statistics",
       {.method = "trades", .attack_statistics = StatisticsMode::kBatch}},
      {"trades_awkward", {.method = "trades", .samples = 37, .global_batch = 8, .accumulation = 3}},
  };
  return settings;
}

class EqualsOneProcess : public TwoGpus, public testing::WithParamInterface<std::string> {};

TEST_P(EqualsOneProcess, WithSynchronizedBatchNormInDouble) {
  expect_ranks_pass("equality_" + GetParam(), 2);
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const auto& [name, options] : equality_settings()) {
    names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Methods, EqualsOneProcess, testing::ValuesIn(setting_names()),
                         [](const auto& parameter) { return parameter.param; });

TEST_F(TwoGpus, CollectivesReachAllRanks) { expect_ranks_pass("collectives", 2); }
TEST_F(TwoGpus, ReplicasAreBitIdentical) { expect_ranks_pass("replicas", 2); }
TEST_F(TwoGpus, OverlappingReductionEqualsPlain) { expect_ranks_pass("reducers", 2); }
TEST_F(TwoGpus, CheckpointOfTheFirstGoesToEachOwn) {
  const ScratchFolder folder;
  ASSERT_EQ(::setenv("TEMPER_TEST_FOLDER", folder.path().c_str(), 1), 0);
  expect_ranks_pass("checkpoint", 2);
}

using ThreeGpus = Gpus<3>;
TEST_F(ThreeGpus, TrainAsOneProcess) { expect_ranks_pass("equality_trades_awkward", 3); }

}  // namespace

void add_several_gpu_cases(RankCases& cases) {
  for (const auto& [name, options] : equality_settings()) {
    cases["equality_" + name] = [options](RankWorld& world) {
      require_equals_one_process(world, options);
    };
  }
  cases["collectives"] = collectives_reach_all_ranks;
  cases["replicas"] = replicas_are_bit_identical;
  cases["reducers"] = overlapping_equals_plain_reduction;
  cases["checkpoint"] = checkpoint_of_gpu_0_goes_to_own_gpu;
}

}  // namespace temper::testing_support
