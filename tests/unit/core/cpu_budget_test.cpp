#include "temper/core/cpu_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace temper {
namespace {

using testing::ElementsAre;

class CpuBudgetTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  [[nodiscard]] CpuBudget budget(std::optional<int> slurm = std::nullopt) const {
    return cpu_budget({.root = root_, .affinity = CpuList{0, 1, 2, 3, 6, 7}, .slurm_cpus = slurm});
  }

  const std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) /
                                      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CpuBudgetTest, MissingFilesMeanNoLimitButTheAffinityMask) {
  const CpuBudget found = budget();
  EXPECT_EQ(found.cpus, 6);
  EXPECT_EQ(found.source, "affinity");
  EXPECT_THAT(found.cores, ElementsAre(0, 1, 2, 3, 6, 7));
  EXPECT_EQ(found.quota, 0);
  EXPECT_GE(cpu_budget({.root = root_}).cpus, 1);
}

TEST_F(CpuBudgetTest, SmallestQuotaOfCgroupVersion2AndItsParentsRoundedUp) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/jobs/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/cpu.max", "500000 100000\n");
  const CpuBudget found = budget();
  EXPECT_EQ(found.cpus, 3);
  EXPECT_EQ(found.source, "cgroup quota");
  EXPECT_EQ(found.quota_group, "/jobs");
  EXPECT_EQ(found.cores.size(), 6U);
}

TEST_F(CpuBudgetTest, QuotaOfCgroupVersion1) {
  write("proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/job/step\n0::/\n");
  write("sys/fs/cgroup/cpu/job/step/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/job/step/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(budget().cpus, 2);
}

TEST_F(CpuBudgetTest, QuotaOfAContainerWhoseOwnPathIsNotVisible) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(budget().cpus, 4);
}

TEST_F(CpuBudgetTest, CpuSetOfTheNearestGroup) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/cpuset.cpus.effective", "2-6\n");
  write("sys/fs/cgroup/jobs/cpuset.cpus.effective", "0-7\n");
  CpuBudget found = budget();
  EXPECT_EQ(found.cpus, 3);
  EXPECT_EQ(found.source, "cgroup CPU set");
  EXPECT_THAT(found.cores, ElementsAre(2, 3, 6));

  write("proc/self/cgroup", "3:cpuset:/one\n");
  write("sys/fs/cgroup/cpuset/one/cpuset.effective_cpus", "7\n");
  EXPECT_EQ(budget().cpus, 1);
}

TEST_F(CpuBudgetTest, TextThatIsNoNumberIsNoLimit) {
  write("proc/self/cgroup", "nonsense\n0::/../other\n4:cpu:/x\n");
  write("sys/fs/cgroup/cpu.max", "lots 100000\n");
  write("sys/fs/cgroup/cpuset.cpus.effective", "8-\n");
  write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "1e999\n");
  write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "0\n");
  EXPECT_EQ(budget().cpus, 6);
}

TEST_F(CpuBudgetTest, SlurmOnlyLowersIt) {
  EXPECT_EQ(budget(4).cpus, 4);
  EXPECT_EQ(budget(4).source, "SLURM_CPUS_PER_TASK");
  EXPECT_EQ(budget(12).cpus, 6);
  ::setenv("SLURM_CPUS_PER_TASK", "3", 1);
  EXPECT_EQ(slurm_cpus(2), 6);
  ::setenv("SLURM_CPUS_PER_TASK", "many", 1);
  EXPECT_EQ(slurm_cpus(2), std::nullopt);
  ::unsetenv("SLURM_CPUS_PER_TASK");
  EXPECT_EQ(slurm_cpus(1), std::nullopt);
}

TEST_F(CpuBudgetTest, LoadAverage) {
  EXPECT_FALSE(host_load(root_));
  write("proc/loadavg", "35.25 3.00 1.00 3/900 1234\n");
  EXPECT_EQ(host_load(root_)->average, 35.25);
  EXPECT_EQ(host_load(root_)->running, 3);
  write("proc/loadavg", "busy\n");
  EXPECT_FALSE(host_load(root_));
}

TEST(CpuList, TextOfTheKernel) {
  EXPECT_THAT(*parse_cpu_list("8,0-2,2"), ElementsAre(0, 1, 2, 8));
  EXPECT_EQ(to_text(CpuList{0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  for (const char* bad : {"", "a", "1-", "-1", "3-1", "1,,2", "0-9999999", "99999999999", "1 2"}) {
    EXPECT_FALSE(parse_cpu_list(bad)) << bad;
  }
  EXPECT_THAT(common_cores({0, 1, 4}, {1, 2, 4}), ElementsAre(1, 4));
}

}  // namespace
}  // namespace temper
