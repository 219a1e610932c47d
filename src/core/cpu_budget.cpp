#include "temper/core/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "temper/core/text.h"

namespace temper {
namespace {

int affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return CPU_COUNT(&set);
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::string read_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void lower(std::optional<double>& limit, double quota, double period) {
  if (quota > 0 && period > 0) {
    limit = std::min(limit.value_or(quota / period), quota / period);
  }
}

// Cores allowed by the cgroup and its parents; nothing when there is no limit.
std::optional<double> cgroup_cores(const std::filesystem::path& root) {
  std::optional<double> limit;
  std::ifstream groups(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const bool unified = fields[1].empty();
    const auto controllers = split(fields[1], ',');
    if (!unified && std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) {
      continue;
    }
    const std::filesystem::path base = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/cpu");
    std::filesystem::path group = std::filesystem::path(fields[2]).relative_path();
    while (true) {
      const std::filesystem::path folder = base / group;
      if (unified) {
        std::istringstream values(read_line(folder / "cpu.max"));
        double quota = 0;
        double period = 0;
        if (values >> quota >> period) {
          lower(limit, quota, period);
        }
      } else {
        lower(limit, std::atof(read_line(folder / "cpu.cfs_quota_us").c_str()),
              std::atof(read_line(folder / "cpu.cfs_period_us").c_str()));
      }
      if (group.empty()) {
        break;
      }
      group = group.parent_path();
    }
  }
  return limit;
}

}  // namespace

CpuBudget cpu_budget(const std::filesystem::path& root) {
  CpuBudget budget{affinity_count(), "affinity"};
  if (const auto cores = cgroup_cores(root)) {
    const int whole = std::max(1, static_cast<int>(std::floor(*cores)));
    if (whole < budget.cpus) {
      budget = {whole, "cgroup quota"};
    }
  }
  if (const char* slurm = std::getenv("SLURM_CPUS_PER_TASK")) {
    const int cpus = std::atoi(slurm);
    if (cpus > 0 && cpus < budget.cpus) {
      budget = {cpus, "SLURM_CPUS_PER_TASK"};
    }
  }
  return budget;
}

}  // namespace temper
