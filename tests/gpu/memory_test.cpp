// What the device queries say of a GPU that this process uses.

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <set>

#include "gpu/gpus.h"

namespace temper::testing_support {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

at::Tensor bytes_on_gpu(std::int64_t bytes) {
  return at::zeros({bytes}, at::TensorOptions(at::kByte).device(at::kCUDA, 0));
}

TEST_F(OneGpu, ListNamesEachGpu) {
  std::set<std::string> uuids;
  for (const GpuInfo& gpu : list_gpus()) {
    EXPECT_NE(gpu.name, "");
    EXPECT_EQ(gpu.uuid.size(), 40U) << gpu.uuid;
    EXPECT_EQ(gpu.pci_bus_id.size(), 12U) << gpu.pci_bus_id;
    EXPECT_GT(gpu.memory_bytes, 1024 * kMiB);
    uuids.insert(gpu.uuid);
  }
  EXPECT_EQ(static_cast<int>(uuids.size()), visible_gpus());
}

TEST_F(OneGpu, PeaksOfIntervalsLeaveThePeakSinceTheStart) {
  bind_gpu(0);
  { const at::Tensor large = bytes_on_gpu(256 * kMiB); }
  EXPECT_GE(take_gpu_peak(0), 256 * kMiB);
  { const at::Tensor small = bytes_on_gpu(8 * kMiB); }
  const std::int64_t second = take_gpu_peak(0);
  EXPECT_GE(second, 8 * kMiB);
  EXPECT_LT(second, 256 * kMiB);
  EXPECT_GE(peak_gpu_memory(0), 256 * kMiB);
}

TEST_F(OneGpu, MemoryCountsTensorsAndTheWholeCard) {
  bind_gpu(0);
  const at::Tensor tensor = bytes_on_gpu(64 * kMiB);
  const GpuMemory memory = gpu_memory(0);
  EXPECT_GE(memory.allocated, 64 * kMiB);
  EXPECT_GE(memory.reserved, memory.allocated);
  EXPECT_GE(memory.peak_allocated, memory.allocated);
  EXPECT_GE(memory.total - memory.free, memory.reserved);
}

TEST_F(OneGpu, TooLargeATensorIsTheErrorThatRanksCatch) {
  bind_gpu(0);
  EXPECT_THROW(static_cast<void>(bytes_on_gpu(2 * gpu_memory(0).total)), c10::OutOfMemoryError);
}

}  // namespace
}  // namespace temper::testing_support
