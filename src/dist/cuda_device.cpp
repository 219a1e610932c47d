#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "temper/dist/device.h"

namespace temper {

bool has_cuda_support() { return true; }

int visible_gpus() { return c10::cuda::device_count(); }

void bind_gpu(int index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); }

std::int64_t peak_gpu_memory(int index) {
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  return stats.allocated_bytes[0].peak;
}

}  // namespace temper
