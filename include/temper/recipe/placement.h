#pragma once
// Which GPU belongs to which rank: the rules alone, over lists of devices that the caller brings.
// Nothing here calls CUDA.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "temper/dist/device.h"
#include "temper/launch/environment.h"

namespace temper {

// The GPUs of a job on this host, one for each local rank in this order.
struct GpuSelection {
  std::vector<GpuInfo> gpus{};
  // What the ranks get as CUDA_VISIBLE_DEVICES: the same for all, or one entry each. A process uses
  // one MIG slice at most, so slices are handed out one by one. Both empty: theirs is ours.
  std::string visible_devices{};
  std::vector<std::string> visible_device_of_rank{};
  std::vector<std::string> warnings{};
};

// `choice`: all, or a list like 0,2 or GPU-8f1c,GPU-77 of numbers and of beginnings of UUIDs, as
// CUDA takes them. CUDA_VISIBLE_DEVICES (`variable`, null: not set) holds first: numbers count the
// GPUs that it leaves, and a UUID must be among them. `visible` is what CUDA shows this process;
// CUDA stops at the first entry of the variable that names no device, which is warned of. Throws
// ConfigError with the GPUs there are.
[[nodiscard]] GpuSelection select_gpus(std::string_view choice, const std::string* variable,
                                       std::span<const GpuInfo> visible);

// ConfigError when there are more ranks on this host than GPUs. Without a GPU ranks take the CPU.
void require_gpu_for_each(int processes, const GpuSelection& selection);

// The number of the rank's GPU among the `visible` ones of its process; at least 1. A scheduler may
// show each task its own GPU alone, which is then number 0; our launcher shows all but for MIG
// slices (`slice`). ConfigError when there is none for this rank.
[[nodiscard]] int choose_gpu(const RankEnvironment& environment, int visible, bool slice = false);

// A sentence for the user when each rank sees one GPU alone though it has neighbours; else empty.
[[nodiscard]] std::string hidden_peers_warning(const RankEnvironment& environment, int visible,
                                               bool slice = false);

// Where a rank runs.
struct RankPlace {
  int rank = 0;
  std::string host{};
  std::optional<GpuInfo> gpu{};    // none: on the CPU
  std::optional<int> numa_node{};  // of the GPU
  std::string cpus{};              // that the rank may use, as "0-3,8"
  int device = 0;                  // the GPU's number in the rank's process
};

// Two ranks on one GPU, as a text that names them and what to do; empty when there are none. A UUID
// tells GPUs apart on all hosts. Slices of one card count as GPUs of their own.
[[nodiscard]] std::string shared_gpu_problem(std::span<const RankPlace> places);

// One line a rank, in columns.
[[nodiscard]] std::string placement_table(std::span<const RankPlace> places);

// "0-3,8" of the sorted numbers.
[[nodiscard]] std::string number_ranges(std::span<const int> numbers);

// From sysfs; nothing where there is one node or the system does not say. `root` replaces "/".
[[nodiscard]] std::optional<int> numa_node_of(const std::string& pci_bus_id,
                                              const std::filesystem::path& root = "/");

}  // namespace temper
