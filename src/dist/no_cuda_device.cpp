#include "temper/core/error.h"
#include "temper/dist/device.h"

namespace temper {

bool has_cuda_support() { return false; }

int visible_gpus() { return 0; }

std::vector<GpuInfo> list_gpus() { return {}; }

bool can_access_peer(int /*gpu*/, int /*peer*/) { return false; }

std::string driver_cuda_version() { return ""; }

void bind_gpu(int index) {
  throw ConfigError(concat("GPU ", index, ": this build has no CUDA, build the preset cuda"));
}

GpuMemory gpu_memory(int /*index*/) { return {}; }

std::int64_t take_gpu_peak(int /*index*/) { return 0; }

std::int64_t peak_gpu_memory(int /*index*/) { return 0; }

}  // namespace temper
