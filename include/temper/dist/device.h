#pragma once
// This rank's device. In a CPU build, and on a machine without a GPU, there are none.

#include <cstdint>

namespace temper {

[[nodiscard]] bool has_cuda_support();  // of the build
[[nodiscard]] int visible_gpus();

// Makes the GPU the current one of this thread; to be called before the first CUDA tensor, in every
// thread that uses CUDA. Throws in a CPU build.
void bind_gpu(int index);

// Peak bytes of tensors on the GPU since the start, and resident memory of this process.
[[nodiscard]] std::int64_t peak_gpu_memory(int index);
[[nodiscard]] std::int64_t peak_host_memory();

}  // namespace temper
