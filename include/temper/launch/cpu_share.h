#pragma once
// How the jobs of a host divide its cores. Pure functions of what the jobs say of themselves, so
// that each job finds the same answer alone. Compute threads are chosen once, when a job starts:
// they are part of what makes a run repeatable. Loader threads follow the other jobs.

#include <optional>
#include <string>
#include <vector>

#include "temper/core/cpu_budget.h"
#include "temper/launch/job_registry.h"

namespace temper {

// What this job brings, for all its ranks of this host.
struct CpuWish {
  CpuBudget budget{};            // of all ranks of this host together
  int ranks = 1;                 // of this host
  bool gpu = false;              // the work of an update is done elsewhere
  std::optional<int> by_hand{};  // --cpus: obeyed whatever other jobs hold
  std::optional<int> loader{};   // data.workers: at most so many a rank
  std::optional<int> compute{};  // a rank; OMP_NUM_THREADS
};

struct CpuShare {
  int cpus = 1;        // cores for this job
  int compute = 1;     // threads a rank, at least 1
  int loader = 1;      // threads a rank when no other job runs, at least 1
  std::string source;  // what decided about `cpus`
  // The compute threads of all jobs exceed the cores, or what the user asked for exceeds `cpus`.
  bool crowded = false;
};

// The share of a job that starts now. A job that has chosen its compute threads keeps them and one
// loader thread a rank; what is left is divided among those that have not chosen yet.
[[nodiscard]] CpuShare share_cpus(const CpuWish& wish, const std::vector<JobEntry>& others);

// The entry of a job for the registry; without a share: it has not chosen yet.
[[nodiscard]] JobEntry job_entry(const CpuWish& wish, const std::optional<CpuShare>& share);

// Loader threads a rank of `own`, now: cores that no compute thread holds are divided evenly among
// the ranks of all jobs, up to what each job uses. At least 1, and all it uses when it is alone.
[[nodiscard]] int loader_threads(const JobEntry& own, const std::vector<JobEntry>& others);

}  // namespace temper
