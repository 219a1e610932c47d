#include "temper/core/error.h"
#include "temper/dist/device.h"

namespace temper {

bool has_cuda_support() { return false; }

int visible_gpus() { return 0; }

void bind_gpu(int index) {
  throw ConfigError(concat("GPU ", index, ": this build has no CUDA, build the preset cuda"));
}

std::int64_t peak_gpu_memory(int /*index*/) { return 0; }

}  // namespace temper
