#pragma once
// Memory in words: before a start, whether the host can carry the ranks; after a failure, where the
// GPU's memory went. Numbers come from the caller.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "temper/core/host_memory.h"
#include "temper/dist/device.h"

namespace temper {

// What a rank keeps in host memory beside LibTorch itself: weights, gradients, optimizer.
// Throws ConfigError when the processes cannot fit even into all memory of the host or its cgroup;
// returns a warning when they usually take more than 80 % of what is available now, else "".
[[nodiscard]] std::string check_host_memory(int processes, std::int64_t model_bytes_per_process,
                                            const HostMemory& memory);

// Peak bytes of tensors on the GPU in each phase of a rank.
class PhaseMemory {
 public:
  using Peaks = std::map<std::string, std::int64_t, std::less<>>;

  // Ends the phase before with this peak, and begins the next.
  void enter(std::string_view phase, std::int64_t peak_of_phase_before);
  // With the phase that still lasts.
  [[nodiscard]] Peaks peaks(std::int64_t peak_of_current_phase) const;
  [[nodiscard]] const std::string& current() const { return current_; }

 private:
  std::string current_ = "start";
  Peaks peaks_;
};

struct GpuExhaustion {
  int device = 0;
  std::string error{};  // LibTorch's, first line
  std::string phase{};  // in which memory ran out
  GpuMemory memory{};
  PhaseMemory::Peaks peaks{};
};

// What to tell of a CUDA out-of-memory: allocated, reserved, peak, total, the peak of each phase,
// and what to lower.
[[nodiscard]] std::string gpu_exhaustion_text(const GpuExhaustion& exhaustion);

}  // namespace temper
