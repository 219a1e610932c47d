#pragma once
// The GPUs that this process sees, and the one of this rank. In a CPU build, and on a machine
// without a GPU, there are none.

#include <cstdint>
#include <string>
#include <vector>

namespace temper {

struct GpuInfo {
  std::string name{};        // "NVIDIA H200"
  std::string uuid{};        // "GPU-8f1c1a2e-...", "MIG-..." for a slice of a card
  std::string pci_bus_id{};  // "0000:3B:00.0"
  std::int64_t memory_bytes = 0;
  int compute_capability = 0;  // 90 for 9.0
};

[[nodiscard]] bool has_cuda_support();  // of the build
[[nodiscard]] int visible_gpus();
// All visible ones, by their number in this process. Makes no context on any of them.
[[nodiscard]] std::vector<GpuInfo> list_gpus();
// Whether each of two GPUs reaches the other's memory without going through the host.
[[nodiscard]] bool can_access_peer(int gpu, int peer);
// Of the highest CUDA version that the driver knows, as "13.0"; empty without a driver.
[[nodiscard]] std::string driver_cuda_version();

// Makes the GPU the current one of this thread; to be called before the first CUDA tensor, in every
// thread that uses CUDA. Throws in a CPU build.
void bind_gpu(int index);

// Bytes on a GPU: of tensors (allocated) and of LibTorch's allocator with its cache (reserved) in
// this process, and of all processes together (free and total).
struct GpuMemory {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t peak_allocated = 0;  // since the start
  std::int64_t free = 0;
  std::int64_t total = 0;
};
[[nodiscard]] GpuMemory gpu_memory(int index);

// Peak bytes of tensors since the last call, or since the start; the next interval begins.
[[nodiscard]] std::int64_t take_gpu_peak(int index);

// Peak bytes of tensors on the GPU since the start, and resident memory of this process.
[[nodiscard]] std::int64_t peak_gpu_memory(int index);
[[nodiscard]] std::int64_t peak_host_memory();

}  // namespace temper
