#include "temper/launch/cpu_share.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "temper/core/text.h"

namespace temper {
namespace {

constexpr int kMostLoaderThreads = 16;
constexpr int kMostComputeBesideGpu = 4;

bool has_chosen(const JobEntry& job) { return job.compute > 0; }

// Cores that several jobs draw from: the common part of their masks, or the quota of one cgroup.
struct Pool {
  double cores = 0;
  std::vector<const JobEntry*> jobs;  // all but the own one
  std::vector<double> parts;          // how much of each draws from this pool, 0 ... 1
};

std::vector<Pool> pools(const CpuList& cores, int quota, std::uint64_t group,
                        const std::vector<JobEntry>& others) {
  Pool mask{.cores = static_cast<double>(cores.size()), .jobs = {}, .parts = {}};
  Pool shared_quota{.cores = static_cast<double>(quota), .jobs = {}, .parts = {}};
  for (const JobEntry& job : others) {
    const auto common = static_cast<double>(common_cores(job.cores, cores).size());
    if (common > 0) {
      mask.jobs.push_back(&job);
      mask.parts.push_back(common / static_cast<double>(job.cores.size()));
    }
    if (group != 0 && job.quota_group == group) {
      shared_quota.jobs.push_back(&job);
      shared_quota.parts.push_back(1);
    }
  }
  std::vector<Pool> found{mask};
  if (quota > 0) {
    found.push_back(shared_quota);
  }
  return found;
}

// What jobs that have chosen will never give back, and how many have not chosen.
struct Held {
  double cores = 0;
  int choosing = 0;
};

Held held(const Pool& pool) {
  Held sum;
  for (std::size_t i = 0; i < pool.jobs.size(); ++i) {
    const JobEntry& job = *pool.jobs[i];
    if (has_chosen(job)) {
      sum.cores += pool.parts[i] * job.ranks * (job.compute + 1);
    } else {
      ++sum.choosing;
    }
  }
  return sum;
}

void divide(const CpuWish& wish, CpuShare& share) {
  const int cores = std::max(1, share.cpus / wish.ranks);
  if (wish.gpu) {
    share.compute = wish.compute.value_or(std::clamp(cores / 4, 1, kMostComputeBesideGpu));
    share.loader = wish.loader.value_or(std::clamp(cores - share.compute, 1, kMostLoaderThreads));
    return;
  }
  const int loader = std::clamp(cores / 8, 1, kMostLoaderThreads);
  share.loader = wish.loader.value_or(loader);
  // Many explicit loader threads take half of the cores at most from the compute threads.
  const int reserved = std::min(share.loader, std::max(1, cores / 2));
  share.compute = wish.compute.value_or(std::max(1, cores - reserved));
}

bool is_crowded(const CpuWish& wish, const CpuShare& share, const std::vector<Pool>& shared) {
  for (const Pool& pool : shared) {
    double compute = wish.ranks * share.compute;
    for (std::size_t i = 0; i < pool.jobs.size(); ++i) {
      compute += pool.parts[i] * pool.jobs[i]->ranks * pool.jobs[i]->compute;
    }
    if (!pool.jobs.empty() && compute > pool.cores) {
      return true;
    }
  }
  const bool asked_for = wish.loader.value_or(1) > 1 || wish.compute.value_or(1) > 1;
  return asked_for && wish.ranks * (share.compute + share.loader) > share.cpus;
}

}  // namespace

CpuShare share_cpus(const CpuWish& wish, const std::vector<JobEntry>& others) {
  const CpuBudget& budget = wish.budget;
  CpuShare share{.cpus = wish.by_hand.value_or(budget.cpus),
                 .compute = 1,
                 .loader = 1,
                 .source = wish.by_hand ? "--cpus" : budget.source,
                 .crowded = false};
  const auto shared =
      pools(budget.cores, budget.quota, quota_group_number(budget.quota_group), others);
  for (const Pool& pool : shared) {
    const Held taken = held(pool);
    const int free = static_cast<int>(
        std::floor(std::max(0.0, pool.cores - taken.cores) / (1 + taken.choosing)));
    if (!wish.by_hand && !pool.jobs.empty() && free < share.cpus) {
      share.cpus = std::max(1, free);
      share.source = "what other Temper jobs on this host leave";
    }
  }
  divide(wish, share);
  share.crowded = is_crowded(wish, share, shared);
  return share;
}

JobEntry job_entry(const CpuWish& wish, const std::optional<CpuShare>& share) {
  const CpuShare known = share.value_or(share_cpus(wish, {}));
  return {.ranks = wish.ranks,
          .compute = share ? share->compute : 0,
          .loader = known.loader,
          .cpus = wish.by_hand.value_or(wish.budget.cpus),
          .quota = wish.budget.quota,
          .cores = wish.budget.cores,
          .quota_group = quota_group_number(wish.budget.quota_group)};
}

int loader_threads(const JobEntry& own, const std::vector<JobEntry>& others) {
  int threads = own.loader;
  for (const Pool& pool : pools(own.cores, own.quota, own.quota_group, others)) {
    if (pool.jobs.empty()) {
      continue;
    }
    double free = pool.cores - own.ranks * std::max(1, own.compute);
    for (std::size_t i = 0; i < pool.jobs.size(); ++i) {
      free -= pool.parts[i] * pool.jobs[i]->ranks * std::max(1, pool.jobs[i]->compute);
    }
    const auto used = [&](int level) {
      double sum = own.ranks * std::min(level, own.loader);
      for (std::size_t i = 0; i < pool.jobs.size(); ++i) {
        sum += pool.parts[i] * pool.jobs[i]->ranks * std::min(level, pool.jobs[i]->loader);
      }
      return sum;
    };
    while (threads > 1 && used(threads) > free) {
      --threads;
    }
  }
  return threads;
}

}  // namespace temper
