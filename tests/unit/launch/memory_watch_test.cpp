#include "launch/memory_watch.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "support/scratch_folder.h"
#include "temper/core/file.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MemoryFiles : public testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_.path() / path).parent_path());
    write_file_atomically(root_.path() / path, text);
  }
  [[nodiscard]] MemoryState read() const { return read_memory_state(root_.path()); }
  [[nodiscard]] fs::path path(const fs::path& relative) const { return root_.path() / relative; }

  ScratchFolder root_;
};

TEST_F(MemoryFiles, VersionTwoWithParents) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.events", "low 0\noom 2\noom_kill 1\noom_group_kill 0\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.max", "2147483648\n");
  write("sys/fs/cgroup/job/memory.peak", "2000000000\n");
  write("sys/fs/cgroup/job/memory.events", "oom_kill 3\n");
  const MemoryState state = read();
  EXPECT_EQ(state.kills.at(path("sys/fs/cgroup/job/step")), 1);
  EXPECT_EQ(state.kills.at(path("sys/fs/cgroup/job")), 3);
  EXPECT_EQ(state.limit, 2147483648);
  EXPECT_EQ(state.limited_by, path("sys/fs/cgroup/job"));
  EXPECT_EQ(state.peak, 2000000000);
}

TEST_F(MemoryFiles, VersionOne) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/slurm/job_7\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.max_usage_in_bytes", "1073000000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  const MemoryState state = read();
  EXPECT_EQ(state.kills.at(path("sys/fs/cgroup/memory/slurm/job_7")), 5);
  EXPECT_EQ(state.limit, 1073741824);
  EXPECT_EQ(state.peak, 1073000000);
}

TEST_F(MemoryFiles, HostAndNothing) {
  EXPECT_TRUE(read().kills.empty());
  write("proc/vmstat", "nr_free_pages 5\noom_kill 11\n");
  write("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    4000 kB\n");
  const MemoryState state = read();
  EXPECT_EQ(state.kills.at("host"), 11);
  EXPECT_EQ(state.host_total, 16000 * 1024);
  EXPECT_EQ(state.host_available, 4000 * 1024);
  EXPECT_FALSE(state.limit);
}

TEST(JudgeKill, ACounterThatRoseIsTheKernel) {
  const MemoryState before{.kills = {{"/cg/job", 1}, {"/cg/job/step", 0}, {"host", 4}}};
  MemoryState after = before;
  after.limit = std::int64_t{2} << 30;
  after.peak = std::int64_t{2} << 30;
  EXPECT_FALSE(judge_kill(before, after).out_of_memory);
  EXPECT_THAT(judge_kill(before, after).text,
              HasSubstr("not the kernel's out-of-memory killer as far as visible: a time limit"));
  after.kills["host"] = 5;
  EXPECT_TRUE(judge_kill(before, after).out_of_memory);
  EXPECT_THAT(judge_kill(before, after).text, HasSubstr("perhaps another process"));
  after.kills["/cg/job"] = 2;
  after.kills["/cg/job/step"] = 1;
  const KillVerdict verdict = judge_kill(before, after);
  EXPECT_TRUE(verdict.out_of_memory);
  EXPECT_THAT(verdict.text, HasSubstr("rose in /cg/job/step"));
  EXPECT_THAT(verdict.text, HasSubstr("limit of the cgroup 2.0 GiB, its peak 2.0 GiB"));
}

TEST(JudgeKill, SaysWhenNothingIsReadable) {
  EXPECT_THAT(judge_kill({}, {}).text, HasSubstr("no counter"));
}

TEST(Bytes, Text) {
  EXPECT_EQ(bytes_text(220 << 20), "220 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 29), "1.5 GiB");
}

}  // namespace
}  // namespace temper
