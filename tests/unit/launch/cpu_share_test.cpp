#include "temper/launch/cpu_share.h"

#include <gtest/gtest.h>

#include <numeric>

namespace temper {
namespace {

CpuList cores(int first, int count) {
  CpuList list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

CpuWish wish(int cpus, int ranks, bool gpu) {
  CpuWish result{.ranks = ranks, .gpu = gpu};
  result.budget.cpus = cpus;
  result.budget.source = "affinity";
  result.budget.cores = cores(0, cpus);
  return result;
}

JobEntry started(const CpuWish& job, const std::vector<JobEntry>& others = {}) {
  return job_entry(job, share_cpus(job, others));
}

int compute_and_loader(const std::vector<JobEntry>& jobs) {
  int threads = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::vector<JobEntry> others = jobs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    threads += jobs[i].ranks * (jobs[i].compute + loader_threads(jobs[i], others));
  }
  return threads;
}

TEST(CpuShare, OneJobHasTheBudgetToItself) {
  CpuShare share = share_cpus(wish(36, 1, true), {});
  EXPECT_EQ(share.cpus, 36);
  EXPECT_EQ(share.compute, 4);
  EXPECT_EQ(share.loader, 16);
  EXPECT_EQ(share.source, "affinity");
  share = share_cpus(wish(36, 4, true), {});
  EXPECT_EQ(share.compute, 2);
  EXPECT_EQ(share.loader, 7);
  share = share_cpus(wish(36, 1, false), {});
  EXPECT_EQ(share.compute, 32);
  EXPECT_EQ(share.loader, 4);
  share = share_cpus(wish(2, 1, false), {});
  EXPECT_EQ(share.compute, 1);
  EXPECT_EQ(share.loader, 1);
  EXPECT_FALSE(share.crowded);
  share = share_cpus(wish(2, 4, false), {});
  EXPECT_EQ(share.compute, 1);
  EXPECT_EQ(share.loader, 1);
}

TEST(CpuShare, ThreadsNeverExceedTheCoresWhenEachRankCanHaveTwo) {
  for (const int cpus : {2, 3, 4, 7, 8, 36, 64, 192}) {
    for (const bool gpu : {false, true}) {
      for (int ranks = 1; 2 * ranks <= cpus && ranks <= 8; ++ranks) {
        const JobEntry job = started(wish(cpus, ranks, gpu));
        EXPECT_LE(compute_and_loader({job}), cpus) << cpus << " cores, " << ranks << " ranks";
      }
    }
  }
}

TEST(CpuShare, TwoJobsWithSixteenLoaderThreadsEachStayWithin36Cores) {
  CpuWish greedy = wish(36, 1, true);
  greedy.loader = 16;
  const JobEntry first = started(greedy);
  EXPECT_EQ(loader_threads(first, {}), 16);
  const JobEntry second = started(greedy, {first});
  EXPECT_EQ(loader_threads(first, {second}), 14);
  EXPECT_EQ(compute_and_loader({first, second}), 36);
  const JobEntry third = started(greedy, {first, second});
  EXPECT_LE(compute_and_loader({first, second, third}), 36);
  EXPECT_EQ(loader_threads(first, {}), 16);  // all again when the others have gone
}

TEST(CpuShare, RanksAreServedAlikeAndUnusedLoaderThreadsAreLeftToOthers) {
  JobEntry eight{.ranks = 8, .compute = 1, .loader = 3, .cpus = 36, .cores = cores(0, 36)};
  JobEntry one{.ranks = 1, .compute = 4, .loader = 16, .cpus = 36, .cores = cores(0, 36)};
  EXPECT_EQ(loader_threads(eight, {one}), 2);
  EXPECT_EQ(loader_threads(one, {eight}), 2);
  eight.loader = 1;
  EXPECT_EQ(loader_threads(one, {eight}), 16);
}

TEST(CpuShare, JobsThatStartTogetherShareAndALateOneTakesWhatIsLeft) {
  const CpuWish job = wish(16, 1, false);
  const JobEntry choosing = job_entry(job, std::nullopt);
  EXPECT_EQ(choosing.compute, 0);
  const CpuShare half = share_cpus(job, {choosing});
  EXPECT_EQ(half.cpus, 8);
  EXPECT_EQ(half.compute, 7);
  const CpuShare other_half = share_cpus(job, {job_entry(job, half)});
  EXPECT_EQ(other_half.cpus, 8);
  EXPECT_FALSE(other_half.crowded);

  const JobEntry whole = started(job);
  const CpuShare late = share_cpus(job, {whole});
  EXPECT_EQ(late.cpus, 1);
  EXPECT_EQ(late.compute, 1);
  EXPECT_EQ(late.source, "what other Temper jobs on this host leave");
  EXPECT_FALSE(late.crowded);
}

TEST(CpuShare, WhatTheUserSaysIsObeyed) {
  CpuWish job = wish(16, 1, false);
  const JobEntry whole = started(job);
  job.by_hand = 8;
  CpuShare share = share_cpus(job, {whole});
  EXPECT_EQ(share.cpus, 8);
  EXPECT_EQ(share.compute, 7);
  EXPECT_EQ(share.source, "--cpus");
  EXPECT_TRUE(share.crowded);
  job.compute = 3;
  job.loader = 12;
  share = share_cpus(job, {});
  EXPECT_EQ(share.compute, 3);
  EXPECT_EQ(share.loader, 12);
  EXPECT_TRUE(share.crowded);  // 15 threads of 8
  job.loader = 5;
  EXPECT_FALSE(share_cpus(job, {}).crowded);
  job.loader = 12;
  EXPECT_EQ(loader_threads(job_entry(job, share), {}), 12);
}

TEST(CpuShare, JobsOnOtherCoresDoNotCount) {
  const CpuWish job = wish(4, 1, true);
  JobEntry elsewhere = started(job);
  elsewhere.cores = cores(4, 4);
  EXPECT_EQ(share_cpus(job, {elsewhere}).cpus, 4);
  EXPECT_EQ(loader_threads(started(job), {elsewhere}), 3);
  elsewhere.cores = cores(2, 4);  // half of it
  EXPECT_EQ(share_cpus(job, {elsewhere}).cpus, 3);
}

TEST(CpuShare, JobsOfOneCgroupShareItsQuota) {
  CpuWish job = wish(36, 1, true);
  job.budget.cpus = job.budget.quota = 8;
  job.budget.quota_group = "/container";
  const JobEntry first = started(job);
  EXPECT_EQ(loader_threads(first, {}), 6);
  const JobEntry second = started(job, {first});
  EXPECT_EQ(second.compute, 1);
  EXPECT_LE(compute_and_loader({first, second}), 8);

  CpuWish other = job;
  other.budget.quota_group = "/neighbour";
  EXPECT_EQ(share_cpus(other, {first}).cpus, 8);
  EXPECT_EQ(loader_threads(first, {started(other, {first})}), 6);
}

}  // namespace
}  // namespace temper
