#pragma once
// How many CPU cores this process may really use: the smallest of its affinity mask, its cgroup's
// CPU set and quota (v1 or v2, parents included) and what Slurm gave its task.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

// Numbers of cores, ascending.
using CpuList = std::vector<int>;

// The kernel's form, "0-3,8"; nullopt for any other text and for numbers above 8191.
[[nodiscard]] std::optional<CpuList> parse_cpu_list(std::string_view text);
[[nodiscard]] std::string to_text(const CpuList& cores);
[[nodiscard]] CpuList common_cores(const CpuList& a, const CpuList& b);

struct CpuBudget {
  int cpus = 1;             // the smallest limit, a quota rounded up
  std::string source;       // which limit decided, for the log
  CpuList cores;            // the mask, whatever decided
  std::string quota_group;  // cgroup with the smallest quota; empty without a quota
  int quota = 0;            // its cores, rounded up; 0 without a quota
};

struct CpuSources {
  std::filesystem::path root = "/";   // where the files of proc and cgroup lie; for tests
  std::optional<CpuList> affinity{};  // instead of the mask of the calling thread
  std::optional<int> slurm_cpus{};    // of this process and the ranks it shares them with
};

// Files that are missing or have no number mean no limit.
[[nodiscard]] CpuBudget cpu_budget(const CpuSources& sources = {});

// SLURM_CPUS_PER_TASK for `tasks` tasks; nullopt when it is not set. Inside a step it may be left
// over from the batch script, so it only ever lowers a budget.
[[nodiscard]] std::optional<int> slurm_cpus(int tasks);

struct HostLoad {
  double average = 0;  // threads that ran or waited for a core, over the last minute
  int running = 0;     // the same now
};
// Of the whole host; nullopt if unknown.
[[nodiscard]] std::optional<HostLoad> host_load(const std::filesystem::path& root = "/");

}  // namespace temper
