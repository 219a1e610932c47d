#include "temper/core/host_memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch_folder.h"

namespace temper {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(HostMemory, ReadsTotalAndAvailable) {
  const ScratchFolder root;
  write(root / "proc/meminfo",
        "MemTotal:        1000 kB\nMemFree:  10 kB\nHugePages_Total:  0\nMemAvailable:  400 kB\n");
  const HostMemory memory = host_memory(root.path());
  EXPECT_EQ(memory.total, 1000 * 1024);
  EXPECT_EQ(memory.available, 400 * 1024);
  EXPECT_FALSE(memory.cgroup_limit);
}

TEST(HostMemory, TakesTheLowestLimitOfCgroupVersion2AndItsParents) {
  const ScratchFolder root;
  write(root / "proc/self/cgroup", "0::/jobs/one\n");
  write(root / "sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write(root / "sys/fs/cgroup/jobs/one/memory.current", "7\n");
  write(root / "sys/fs/cgroup/jobs/memory.max", "5000\n");
  write(root / "sys/fs/cgroup/jobs/memory.current", "2000\n");
  const HostMemory memory = host_memory(root.path());
  EXPECT_EQ(memory.cgroup_limit, 5000);
  EXPECT_EQ(memory.cgroup_used, 2000);
}

TEST(HostMemory, ReadsCgroupVersion1) {
  const ScratchFolder root;
  write(root / "proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/job\n");
  write(root / "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "6000\n");
  write(root / "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "10\n");
  write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_memory(root.path()).cgroup_limit, 6000);
  write(root / "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(host_memory(root.path()).cgroup_limit);
}

TEST(HostMemory, ReadsThisHost) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.total, 0);
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace temper
