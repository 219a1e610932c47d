#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "temper/core/text.h"
#include "temper/dist/device.h"

namespace temper {
namespace {

constexpr std::size_t kMostGpus = 64;

// The allocator forgets its peak when an interval of take_gpu_peak ends.
std::array<std::atomic<std::int64_t>, kMostGpus> earlier_peaks{};

std::int64_t keep_peak(int index, std::int64_t peak) {
  std::atomic<std::int64_t>& earlier = earlier_peaks.at(static_cast<std::size_t>(index));
  std::int64_t before = earlier.load();
  while (before < peak && !earlier.compare_exchange_weak(before, peak)) {
  }
  return std::max(before, peak);
}

// The properties do not say whether it is a whole card. A process sees a slice only when it is
// named by its UUID.
std::string uuid_text(const cudaUUID_t& uuid) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool slice = visible != nullptr && std::string_view(visible).starts_with("MIG-");
  std::string text = slice ? "MIG" : "GPU";
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

c10::DeviceIndex device_index(int index) { return static_cast<c10::DeviceIndex>(index); }

}  // namespace

bool has_cuda_support() { return true; }

int visible_gpus() { return c10::cuda::device_count(); }

std::vector<GpuInfo> list_gpus() {
  std::vector<GpuInfo> gpus;
  for (int index = 0; index < visible_gpus(); ++index) {
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    std::array<char, 32> bus_id{};
    C10_CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index));
    gpus.push_back({.name = properties.name,
                    .uuid = uuid_text(properties.uuid),
                    .pci_bus_id = bus_id.data(),
                    .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                    .compute_capability = 10 * properties.major + properties.minor});
  }
  return gpus;
}

bool can_access_peer(int gpu, int peer) {
  int there = 0;
  int back = 0;
  C10_CUDA_CHECK(cudaDeviceCanAccessPeer(&there, gpu, peer));
  C10_CUDA_CHECK(cudaDeviceCanAccessPeer(&back, peer, gpu));
  return there != 0 && back != 0;
}

std::string driver_cuda_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    return "";
  }
  return concat(version / 1000, ".", version % 1000 / 10);
}

void bind_gpu(int index) { c10::cuda::set_device(device_index(index)); }

GpuMemory gpu_memory(int index) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_index(index));
  const c10::cuda::CUDAGuard guard(device_index(index));
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.allocated = stats.allocated_bytes[0].current,
          .reserved = stats.reserved_bytes[0].current,
          .peak_allocated = peak_gpu_memory(index),
          .free = static_cast<std::int64_t>(free),
          .total = static_cast<std::int64_t>(total)};
}

std::int64_t take_gpu_peak(int index) {
  using namespace c10::cuda;
  const std::int64_t peak =
      CUDACachingAllocator::getDeviceStats(device_index(index)).allocated_bytes[0].peak;
  static_cast<void>(keep_peak(index, peak));
  CUDACachingAllocator::resetPeakStats(device_index(index));
  return peak;
}

std::int64_t peak_gpu_memory(int index) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_index(index));
  return keep_peak(index, stats.allocated_bytes[0].peak);
}

}  // namespace temper
