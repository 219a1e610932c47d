#pragma once
// How many CPU cores this process may really use: the smallest of its affinity mask, its cgroup's
// quota (v1 or v2) and SLURM_CPUS_PER_TASK.

#include <filesystem>
#include <string>

namespace temper {

struct CpuBudget {
  int cpus = 1;
  std::string source;  // which limit decided, for the log
};

// `root` replaces "/" where the cgroup files are read; for tests.
[[nodiscard]] CpuBudget cpu_budget(const std::filesystem::path& root = "/");

}  // namespace temper
