#include "temper/recipe/memory_report.h"

#include <algorithm>
#include <cmath>

#include "temper/core/error.h"

namespace temper {
namespace {

// Measured on a small model, docs/architecture.md: what a rank has for itself, and what it shows as
// resident, the libraries included that all ranks share.
constexpr std::int64_t kPrivateBytes = std::int64_t{40} << 20;
constexpr std::int64_t kResidentBytes = std::int64_t{150} << 20;

std::string in_gib(std::int64_t bytes) {
  return concat(fixed(static_cast<double>(bytes) / (1 << 30), 1), " GiB");
}

std::string in_mib(std::int64_t bytes) {
  return concat(std::llround(static_cast<double>(bytes) / (1 << 20)), " MiB");
}

bool cgroup_decides(const HostMemory& memory) {
  return memory.cgroup_limit && (memory.total == 0 || *memory.cgroup_limit < memory.total);
}

}  // namespace

std::string check_host_memory(int processes, std::int64_t model_bytes_per_process,
                              const HostMemory& memory) {
  const bool cgroup = cgroup_decides(memory);
  const std::int64_t all = cgroup ? *memory.cgroup_limit : memory.total;
  const std::int64_t least = processes * (kPrivateBytes + model_bytes_per_process);
  if (all > 0 && least > all) {
    throw ConfigError(
        concat("--nproc ", processes, ": the processes need at least ", in_gib(least),
               " of memory, ", cgroup ? "the cgroup of this process allows " : "this host has ",
               in_gib(all), "; start at most ",
               std::max<std::int64_t>(1, all / (kPrivateBytes + model_bytes_per_process)),
               " on this host"));
  }
  std::int64_t left = memory.available;
  if (cgroup) {
    // Page cache counts as used, so what a group really has left is not known: its limit is.
    left = left > 0 ? std::min(left, all) : all;
  }
  const std::int64_t usual = processes * (kResidentBytes + model_bytes_per_process);
  constexpr double kMuch = 0.8;
  if (left > 0 && static_cast<double>(usual) > kMuch * static_cast<double>(left)) {
    return concat(processes, processes == 1 ? " process takes " : " processes take ", "about ",
                  in_gib(usual), " of memory without data and activations, ", in_gib(left),
                  cgroup ? " are available in this cgroup" : " are available",
                  ": the kernel may end one of them; lower --nproc or data.memory_limit");
  }
  return "";
}

void PhaseMemory::enter(std::string_view phase, std::int64_t peak_of_phase_before) {
  std::int64_t& peak = peaks_[current_];
  peak = std::max(peak, peak_of_phase_before);
  current_ = phase;
}

PhaseMemory::Peaks PhaseMemory::peaks(std::int64_t peak_of_current_phase) const {
  Peaks result = peaks_;
  std::int64_t& peak = result[current_];
  peak = std::max(peak, peak_of_current_phase);
  return result;
}

std::string gpu_exhaustion_text(const GpuExhaustion& exhaustion) {
  const GpuMemory& memory = exhaustion.memory;
  std::string text =
      concat("GPU memory ran out on cuda:", exhaustion.device, " in phase ", exhaustion.phase, ": ",
             exhaustion.error, "\n  this process: ", in_mib(memory.allocated), " allocated, ",
             in_mib(memory.reserved), " reserved, peak ", in_mib(memory.peak_allocated),
             " allocated; the GPU: ", in_mib(memory.total - memory.free), " of ",
             in_mib(memory.total), " in use");
  const std::int64_t others = memory.total - memory.free - memory.reserved;
  constexpr std::int64_t kContext = std::int64_t{1} << 30;
  if (others > kContext) {
    text += concat(", ", in_mib(others), " of it outside this process's tensors");
  }
  std::vector<std::pair<std::string, std::int64_t>> phases(exhaustion.peaks.begin(),
                                                           exhaustion.peaks.end());
  std::stable_sort(phases.begin(), phases.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [phase, peak] : phases) {
    if (peak > 0) {
      text += concat("\n  peak in phase ", phase, ": ", in_mib(peak));
    }
  }
  const bool evaluation = exhaustion.phase == "validation" || exhaustion.phase == "evaluation";
  text += evaluation
              ? "\n  Lower validation.batch_size; accuracies do not depend on it."
              : "\n  Raise training.accumulation: with twice its value a pass holds half the "
                "samples, the update keeps its global batch. Or lower training.global_batch_size.";
  if (memory.reserved - memory.allocated > memory.total / 5) {
    text +=
        "\n  Much is reserved and not in use: PYTORCH_ALLOC_CONF=expandable_segments:True "
        "lessens fragmentation.";
  }
  return text;
}

}  // namespace temper
