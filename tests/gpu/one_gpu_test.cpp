// One process on one GPU: it computes what the CPU computes, its memory does not grow, the host
// does not wait for it inside a step, and its checkpoints are free of it.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "gpu/gpus.h"
#include "support/compare.h"
#include "support/reference_nets.h"
#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/random_tensor.h"
#include "temper/models/architectures.h"

namespace temper::testing_support {
namespace {

constexpr double kDoubleTolerance = 1e-9;
constexpr double kFloatTolerance = 1e-4;

class Training : public OneGpu {
 protected:
  void SetUp() override {
    OneGpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    // Its products have ten bits: no comparison could hold 1e-4.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
    bind_gpu(0);
  }

  static TrainingResult train(const SmallTraining& options) {
    return run_small_training(*make_communicator(nullptr, {}), options);
  }

  static void expect_gpu_equals_cpu(SmallTraining options, at::ScalarType dtype, double tolerance) {
    options.placement = {.dtype = dtype};
    const TrainingResult cpu = train(options);
    options.placement = on_gpu(0, dtype);
    const TrainingResult gpu = train(options);
    ASSERT_EQ(gpu.updates, cpu.updates);
    require_equal_states(gpu.state, cpu.state, tolerance);
    if (dtype == at::kDouble) {
      EXPECT_EQ(gpu.validation.samples, cpu.validation.samples);
      EXPECT_EQ(gpu.validation.clean_correct, cpu.validation.clean_correct);
      EXPECT_EQ(gpu.validation.attacks[0].robust_correct, cpu.validation.attacks[0].robust_correct);
    }
  }
};

TEST_F(Training, EqualsTheCpuInDouble) {
  for (const char* method : {"standard", "trades", "mixed", "pgd_at"}) {
    SCOPED_TRACE(method);
    expect_gpu_equals_cpu({.method = method}, at::kDouble, kDoubleTolerance);
  }
}

TEST_F(Training, EqualsTheCpuInDoubleWithAccumulationAndAwkwardSizes) {
  expect_gpu_equals_cpu({.samples = 37, .global_batch = 8, .accumulation = 3}, at::kDouble,
                        kDoubleTolerance);
}

TEST_F(Training, OneUpdateEqualsTheCpuInFloat) {
  for (const char* method : {"standard", "trades"}) {
    SCOPED_TRACE(method);
    expect_gpu_equals_cpu({.method = method, .max_updates = 1}, at::kFloat, kFloatTolerance);
  }
}

TEST_F(Training, GoesOnFromACheckpointOfTheGpu) {
  const ScratchFolder folder;
  SmallTraining options{.epochs = 3, .placement = on_gpu(0, at::kDouble)};
  const TrainingResult whole = train(options);
  SmallTraining first = options;
  first.max_updates = 2;
  first.checkpoints = folder.path();
  static_cast<void>(train(first));
  const Value checkpoint = read_checkpoint(folder / "last.pt");
  options.resume_from = &checkpoint;
  const TrainingResult resumed = train(options);
  EXPECT_EQ(resumed.updates, whole.updates);
  require_equal_states(resumed.state, whole.state, kDoubleTolerance);
  require_equal_states(resumed.optimizer, whole.optimizer, kDoubleTolerance);
}

// Bytes of tensors that live on the GPU.
std::int64_t allocated_bytes() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
}

TEST_F(Training, TakesMemoryThatDoesNotGrowWithTheUpdates) {
  const std::int64_t before = peak_gpu_memory(0);
  std::vector<std::int64_t> at_start;  // of an update
  SmallTraining options{.epochs = 12, .placement = on_gpu(0, at::kFloat)};
  options.enter_phase = [&](std::string_view phase, std::int64_t /*update*/) {
    if (phase == "data") {
      at_start.push_back(allocated_bytes());
    }
  };
  static_cast<void>(train(options));
  ASSERT_EQ(at_start.size(), 24U);
  EXPECT_GT(at_start.back(), 0);
  EXPECT_GE(peak_gpu_memory(0), *std::max_element(at_start.begin(), at_start.end()));
  EXPECT_GE(peak_gpu_memory(0), before);
  // The first updates make momentum and the workspaces of the libraries.
  const auto largest = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return *std::max_element(at_start.begin() + begin, at_start.begin() + end);
  };
  EXPECT_LE(largest(20, 24), largest(4, 8));
}

TEST_F(OneGpu, PeakMemoryCountsATensor) {
  bind_gpu(0);
  const std::int64_t before = peak_gpu_memory(0);
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const at::Tensor tensor = at::zeros({kBytes}, at::TensorOptions(at::kByte).device(at::kCUDA, 0));
  EXPECT_GE(peak_gpu_memory(0), std::max(before, kBytes));
}

// Counts the warnings of LibTorch's synchronisation check; backward passes hand theirs on to the
// calling thread.
class SynchronizationCounter final : public c10::WarningHandler {
 public:
  SynchronizationCounter() : guard_(this) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~SynchronizationCounter() override {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
  SynchronizationCounter(const SynchronizationCounter&) = delete;
  SynchronizationCounter& operator=(const SynchronizationCounter&) = delete;
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("synchronizing CUDA operation") != std::string::npos) {
      ++count;
    }
  }

  int count = 0;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
};

TEST_F(OneGpu, SynchronizationCounterSeesACopyToTheHost) {
  bind_gpu(0);
  const at::Tensor tensor = at::ones({}, at::TensorOptions(at::kFloat).device(at::kCUDA, 0));
  SynchronizationCounter synchronizations;
  EXPECT_EQ(tensor.item<float>(), 1);
  EXPECT_GT(synchronizations.count, 0);
}

TEST_F(Training, StepDoesNotMakeTheHostWait) {
  for (const std::string method :
       {"standard", "trades", "pgd_at", "mart", "n_fgsm", "apgd_at", "free", "awp"}) {
    SCOPED_TRACE(method);
    SynchronizationCounter synchronizations;
    std::vector<int> at_start;  // of an update
    SmallTraining options{.method = method == "awp" ? "trades" : method,
                          .replays = 1,
                          .epochs = 5,
                          .placement = on_gpu(0, at::kFloat)};
    if (method == "awp") {
      options.weight_perturbation = WeightPerturbationOptions{};
    }
    options.enter_phase = [&](std::string_view phase, std::int64_t /*update*/) {
      if (phase == "data") {
        at_start.push_back(synchronizations.count);
      }
    };
    static_cast<void>(train(options));
    // The first updates make what later ones reuse; the last one ends with the run's own reading.
    ASSERT_EQ(at_start.size(), 10U);
    EXPECT_EQ(at_start[9] - at_start[2], 0) << "in seven updates";
  }
}

TEST_F(OneGpu, DrawsTheRandomNumbersOfTheCpu) {
  bind_gpu(0);
  const RandomStream stream{.seed = 0x123456789abcdef,
                            .purpose = Purpose::kAttackStart,
                            .layer = 3,
                            .step = 7,
                            .index = 9};
  const at::Tensor samples = at::tensor({0, 1, 5, 1'281'166}, at::kLong);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::TensorOptions cpu(dtype);
    const at::TensorOptions gpu = cpu.device(at::kCUDA, 0);
    const at::Tensor uniform = uniform_tensor(stream, samples, {3, 5, 7}, gpu);
    EXPECT_TRUE(uniform.is_cuda());
    EXPECT_TRUE(at::equal(uniform.cpu(), uniform_tensor(stream, samples, {3, 5, 7}, cpu)));
    EXPECT_EQ(difference(normal_tensor(stream, samples, {3, 5, 7}, gpu).cpu(),
                         normal_tensor(stream, samples, {3, 5, 7}, cpu), 1e-6),
              "");
  }
}

TEST_F(OneGpu, WeightsReachAFileAndComeBackToTheGpu) {
  bind_gpu(0);
  const auto place = on_gpu(0, at::kFloat);
  const ScratchFolder folder;
  const auto saved = make_reference_net("cnn");
  initialize(*saved, 5);
  saved->to(place.device, place.dtype);
  ValueDict entries;
  for (const auto& [name, tensor] : state_dict(*saved)) {
    entries[name] = tensor.detach();
  }
  write_checkpoint(folder / "weights.pt", Value(entries));
  const Value read = read_checkpoint(folder / "weights.pt");
  const auto loaded = make_reference_net("cnn");
  initialize(*loaded, 6);
  loaded->to(place.device, place.dtype);
  StateDict state;
  for (const auto& [name, tensor] : state_dict(*saved)) {
    state.emplace_back(name, read.as_dict().at(name).as_tensor());
    EXPECT_TRUE(state.back().second.is_cpu()) << name;
  }
  load_state_dict(*loaded, state, "weights.pt");
  const StateDict expected = state_dict(*saved);
  const StateDict actual = state_dict(*loaded);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].second.device(), place.device) << actual[i].first;
    EXPECT_TRUE(at::equal(actual[i].second, expected[i].second)) << actual[i].first;
  }
}

}  // namespace
}  // namespace temper::testing_support
