#include "temper/launch/job_time.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace temper {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

TEST(SlurmTime, IsReadInAllItsForms) {
  EXPECT_EQ(parse_slurm_time("1-02:03:04"), seconds(86400 + 2 * 3600 + 3 * 60 + 4));
  EXPECT_EQ(parse_slurm_time("12:00:00"), seconds(12 * 3600));
  EXPECT_EQ(parse_slurm_time("3:04"), seconds(184));
  EXPECT_EQ(parse_slurm_time("0:00"), seconds(0));
  for (const char* text : {"UNLIMITED", "NOT_SET", "INVALID", "", "5", "1:2:3:4", "-1:00", "a:b"}) {
    EXPECT_FALSE(parse_slurm_time(text)) << text;
  }
}

// A program named squeue that stands first in the path.
class JobTime : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "temper-squeue-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = ::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("SLURM_JOB_ID", "77", 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("SLURM_JOB_ID");
    fs::remove_all(folder_);
  }
  void answer(const std::string& script) const {
    std::ofstream(folder_ / "squeue") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder_ / "squeue", fs::perms::owner_all);
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(JobTime, LeavesTimeToSave) {
  answer(R"([ "$*" = "-h -j 77 -o %L" ] && echo 1:00:00)");
  EXPECT_EQ(time_left_in_job(), seconds(3600 - 120));
  answer("echo 1:40");
  EXPECT_EQ(time_left_in_job(), seconds(90));
  answer("echo 0:20");
  EXPECT_EQ(time_left_in_job(), seconds(15));
}

TEST_F(JobTime, UnknownEndIsNoLimit) {
  answer("echo UNLIMITED");
  EXPECT_FALSE(time_left_in_job());
  answer("exit 1");
  EXPECT_FALSE(time_left_in_job());
  ::unsetenv("SLURM_JOB_ID");
  answer("echo 1:00:00");
  EXPECT_FALSE(time_left_in_job());
}

}  // namespace
}  // namespace temper
