#include "temper/core/cpu_budget.h"

#include <gtest/gtest.h>

#include <fstream>

namespace temper {
namespace {

std::filesystem::path fake_root(const char* name) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(root);
  return root;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(CpuBudget, ReadsTheQuotaOfCgroupVersion2AndItsParents) {
  const auto root = fake_root("temper_cgroup2");
  write(root / "proc/self/cgroup", "0::/jobs/one\n");
  write(root / "sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  write(root / "sys/fs/cgroup/jobs/cpu.max", "100000 100000\n");
  EXPECT_EQ(cpu_budget(root).cpus, 1);
}

TEST(CpuBudget, ReadsTheQuotaOfCgroupVersion1) {
  const auto root = fake_root("temper_cgroup1");
  write(root / "proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  write(root / "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  write(root / "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_budget(root).cpus, 1);
}

TEST(CpuBudget, MissingFilesMeanNoLimit) {
  EXPECT_GE(cpu_budget(fake_root("temper_cgroup0")).cpus, 1);
}

}  // namespace
}  // namespace temper
