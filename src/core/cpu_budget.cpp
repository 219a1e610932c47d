#include "temper/core/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>

#include "temper/core/text.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCores = 8192;

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

CpuList first_cores(int count) {
  CpuList cores;
  for (int core = 0; core < count; ++core) {
    cores.push_back(core);
  }
  return cores;
}

CpuList affinity() {
  struct FreeSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(kMostCores));
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  if (set == nullptr || ::sched_getaffinity(0, bytes, set.get()) != 0) {
    return first_cores(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  }
  CpuList cores;
  for (int core = 0; core < kMostCores; ++core) {
    if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) {
      cores.push_back(core);
    }
  }
  return cores;
}

std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A line of /proc/self/cgroup: the folder of a hierarchy, and the process's group in it.
struct Group {
  bool unified = false;
  fs::path base;
  fs::path name{};
  bool has_quota = false;
  bool has_cores = false;
};

std::vector<Group> read_groups(const fs::path& root) {
  std::vector<Group> groups;
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const auto controllers = split(fields[1], ',');
    const auto has = [&](const char* name) { return std::ranges::count(controllers, name) > 0; };
    Group group{.unified = fields[1].empty(), .base = root / "sys/fs/cgroup"};
    group.name = fs::path(fields[2]).relative_path();
    group.has_quota = group.unified || has("cpu");
    group.has_cores = group.unified || has("cpuset");
    if (!group.unified && (group.has_quota || group.has_cores)) {
      const fs::path joined = group.base / fields[1];
      group.base = fs::exists(joined) ? joined : group.base / (group.has_quota ? "cpu" : "cpuset");
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// Calls `look` with the group's folder and those of its parents up to the root of the hierarchy.
template <typename Look>
void visit_parents(const Group& group, const Look& look) {
  for (fs::path name = group.name;; name = name.parent_path()) {
    look(group.base / name, concat("/", name.string()));
    if (name.empty()) {
      return;
    }
  }
}

std::optional<double> read_quota(bool unified, const fs::path& folder) {
  double quota = 0;
  double period = 0;
  if (unified) {
    std::istringstream values(read_line(folder / "cpu.max"));
    values >> quota >> period;
  } else {
    std::istringstream(read_line(folder / "cpu.cfs_quota_us")) >> quota;
    std::istringstream(read_line(folder / "cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

void find_quota(const Group& group, CpuBudget& budget) {
  visit_parents(group, [&](const fs::path& folder, const std::string& name) {
    const auto quota = read_quota(group.unified, folder);
    if (!quota || *quota > kMostCores) {
      return;
    }
    const int cores = std::max(1, static_cast<int>(std::ceil(*quota)));
    if (budget.quota == 0 || cores < budget.quota) {
      budget.quota = cores;
      budget.quota_group = name;
    }
  });
}

// The kernel's own intersection with all parents; in a container the nearest folder that shows.
std::optional<CpuList> effective_cores(const Group& group) {
  std::optional<CpuList> cores;
  visit_parents(group, [&](const fs::path& folder, const std::string&) {
    for (const char* file : {"cpuset.cpus.effective", "cpuset.effective_cpus"}) {
      auto found = parse_cpu_list(trim(read_line(folder / file)));
      if (!cores && found && !found->empty()) {
        cores = std::move(found);
      }
    }
  });
  return cores;
}

}  // namespace

std::optional<CpuList> parse_cpu_list(std::string_view text) {
  CpuList cores;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = whole_number(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : whole_number(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kMostCores) {
      return std::nullopt;
    }
    for (int core = *first; core <= *last; ++core) {
      cores.push_back(core);
    }
  }
  std::ranges::sort(cores);
  const auto repeated = std::ranges::unique(cores);
  cores.erase(repeated.begin(), repeated.end());
  return cores;
}

std::string to_text(const CpuList& cores) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) {
      ++end;
    }
    parts.push_back(end - i == 1 ? concat(cores[i]) : concat(cores[i], "-", cores[end - 1]));
    i = end;
  }
  return join(parts, ",");
}

CpuList common_cores(const CpuList& a, const CpuList& b) {
  CpuList common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return common;
}

CpuBudget cpu_budget(const CpuSources& sources) {
  CpuBudget budget;
  budget.cores = sources.affinity ? *sources.affinity : affinity();
  budget.source = "affinity";
  for (const Group& group : read_groups(sources.root)) {
    if (group.has_quota) {
      find_quota(group, budget);
    }
    if (group.has_cores) {
      const auto cores = effective_cores(group);
      CpuList common = cores ? common_cores(budget.cores, *cores) : CpuList();
      if (!common.empty() && common.size() < budget.cores.size()) {
        budget.cores = std::move(common);
        budget.source = "cgroup CPU set";
      }
    }
  }
  budget.cpus = std::max(1, static_cast<int>(budget.cores.size()));
  if (budget.quota > 0 && budget.quota < budget.cpus) {
    budget.cpus = budget.quota;
    budget.source = "cgroup quota";
  }
  if (sources.slurm_cpus && *sources.slurm_cpus > 0 && *sources.slurm_cpus < budget.cpus) {
    budget.cpus = *sources.slurm_cpus;
    budget.source = "SLURM_CPUS_PER_TASK";
  }
  return budget;
}

std::optional<int> slurm_cpus(int tasks) {
  const char* text = std::getenv("SLURM_CPUS_PER_TASK");
  const auto cpus = text == nullptr ? std::nullopt : whole_number(text);
  return cpus && *cpus > 0 && *cpus <= kMostCores ? std::optional(*cpus * tasks) : std::nullopt;
}

std::optional<HostLoad> host_load(const fs::path& root) {
  HostLoad load;
  double ignored = 0;
  std::istringstream values(read_line(root / "proc/loadavg"));
  values >> load.average >> ignored >> ignored >> load.running;
  return values ? std::optional(load) : std::nullopt;
}

}  // namespace temper
