#pragma once
// What diagnose finds on a machine, and what it makes of it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "temper/core/host_memory.h"
#include "temper/dist/device.h"
#include "temper/launch/environment.h"

namespace temper {

struct ResourceLimit {
  std::string name{};                   // as `ulimit` calls it
  std::optional<std::uint64_t> soft{};  // none: unlimited
  std::optional<std::uint64_t> hard{};
};

struct DiskSpace {
  std::string path{};
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  bool is_writable = false;
  std::string error{};  // why nothing is known
};

struct InterfaceAddress {
  std::string interface {};
  std::string address{};
};

struct Resolution {
  std::string name{};
  std::vector<std::string> addresses{};  // version 4 and 6
  std::string error{};                   // why there are none
};

struct MachineFacts {
  std::vector<std::pair<std::string, std::string>> versions{};
  std::string host{};
  std::string launcher{};           // who started this process
  std::string environment_error{};  // a rank half named, or a contradiction
  int processes = 1;                // of the all-reduce, on this host
  int nodes = 1;                    // hosts of the job as its launcher counts them
  bool has_cuda_support = false;
  std::string driver{};       // NVIDIA's kernel module; empty: none
  std::string driver_cuda{};  // highest version that the driver knows
  std::vector<GpuInfo> gpus{};
  std::vector<std::pair<int, int>> gpus_out_of_reach{};  // pairs without direct access
  int cpus = 1;
  std::string cpu_source{};
  HostMemory memory{};
  std::vector<ResourceLimit> limits{};
  DiskSpace shared_memory{};
  DiskSpace working_directory{};
  bool has_infiniband = false;
  std::vector<InterfaceAddress> addresses{};
  Resolution own_name{};
  std::optional<Resolution> master{};  // of MASTER_ADDR, if it is set
  EnvironmentVariables variables{};    // those that matter
};

struct AllReduceResult {
  int ranks = 0;
  std::string backend{};
  std::string error{};          // else the rest means nothing
  double latency_seconds = 0;   // of one number
  double bytes_per_second = 0;  // of a large tensor: its size by the time of one all-reduce
  std::int64_t bytes = 0;       // of that tensor
  double seconds = 0;           // both measurements
};

struct Finding {
  bool is_problem = false;  // else it may matter
  std::string check{};
  std::string text{};  // what, and what to do
};

// `root` replaces "/" for the files of proc and sys.
[[nodiscard]] MachineFacts gather_machine_facts(const EnvironmentVariables& variables,
                                                const std::filesystem::path& root = "/");

// Of the variables those that change how a job starts or communicates.
[[nodiscard]] EnvironmentVariables variables_that_matter(const EnvironmentVariables& variables);

[[nodiscard]] std::vector<Finding> judge(const MachineFacts& facts,
                                         const AllReduceResult& all_reduce);

[[nodiscard]] std::string diagnosis_text(const MachineFacts& facts,
                                         const AllReduceResult& all_reduce,
                                         const std::vector<Finding>& findings);
[[nodiscard]] std::string diagnosis_json(const MachineFacts& facts,
                                         const AllReduceResult& all_reduce,
                                         const std::vector<Finding>& findings);

}  // namespace temper
