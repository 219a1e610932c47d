#include "temper/launch/job_registry.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "support/scratch_folder.h"
#include "temper/core/file.h"
#include "temper/core/text.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

JobEntry job(int ranks) {
  return {.ranks = ranks,
          .compute = 3,
          .loader = 4,
          .cpus = 8,
          .quota = 0,
          .cores = {0, 1, 2, 3, 7},
          .quota_group = 5};
}

// A process that lists `entry` and lives until it is killed.
class OtherProcess {
 public:
  OtherProcess(const fs::path& folder, const JobEntry& entry) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const JobRegistration registration(folder, entry);
      EXPECT_EQ(::write(ready[1], "x", 1), 1);
      while (true) {
        ::pause();
      }
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~OtherProcess() { kill(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }

 private:
  pid_t pid_ = -1;
};

// A file that a stranger keeps locked, with any content.
class LockedFile {
 public:
  LockedFile(const fs::path& path, const std::string& content)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    EXPECT_EQ(::write(descriptor_, content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    EXPECT_EQ(::flock(descriptor_, LOCK_EX | LOCK_NB), 0);
  }
  ~LockedFile() { ::close(descriptor_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

 private:
  int descriptor_;
};

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(JobEntryText, ReadsBackAndRejectsEveryDamage) {
  const std::string text = to_text(job(2));
  EXPECT_EQ(parse_job_entry(text), job(2));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(parse_job_entry(damaged)) << i;
    EXPECT_FALSE(parse_job_entry(text.substr(0, i))) << i;
  }
  EXPECT_FALSE(parse_job_entry(std::string(1 << 20, 'x')));
}

TEST(JobEntryText, NumbersOutOfRangeAreRejectedWithAGoodChecksum) {
  for (const auto& spoil : std::vector<std::function<void(JobEntry&)>>{
           [](JobEntry& entry) { entry.ranks = 0; }, [](JobEntry& entry) { entry.ranks = 9000; },
           [](JobEntry& entry) { entry.compute = -1; }, [](JobEntry& entry) { entry.loader = 0; },
           [](JobEntry& entry) { entry.cpus = 10000; }, [](JobEntry& entry) { entry.quota = -2; },
           [](JobEntry& entry) { entry.cores = {}; },
           [](JobEntry& entry) { entry.cores = {8192}; }}) {
    JobEntry entry = job(1);
    spoil(entry);
    EXPECT_FALSE(parse_job_entry(to_text(entry))) << to_text(entry);
  }
}

TEST(JobRegistry, JobsSeeEachOtherAndEachUpdate) {
  const ScratchFolder folder;
  JobRegistration first(folder.path(), job(1));
  EXPECT_THAT(first.others(), IsEmpty());
  {
    JobRegistration second(folder.path(), job(2));
    EXPECT_THAT(first.others(), ElementsAre(job(2)));
    EXPECT_THAT(second.others(), ElementsAre(job(1)));
    second.update(job(4));
    EXPECT_THAT(first.others(), ElementsAre(job(4)));
  }
  EXPECT_THAT(first.others(), IsEmpty());
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(JobRegistry, KilledProcessLeavesNothingBehindThatCounts) {
  const ScratchFolder folder;
  JobRegistration own(folder.path(), job(1));
  OtherProcess one(folder.path(), job(2));
  OtherProcess two(folder.path(), job(3));
  EXPECT_THAT(own.others(), UnorderedElementsAre(job(2), job(3)));
  one.kill();
  EXPECT_THAT(own.others(), ElementsAre(job(3)));
  two.kill();
  EXPECT_THAT(own.others(), IsEmpty());
  EXPECT_EQ(files_in(folder.path()), 1U);  // the dead jobs' files are gone
}

TEST(JobRegistry, ARankWritesIntoTheFileThatItsLauncherHolds) {
  const ScratchFolder folder;
  JobRegistration stranger(folder.path(), job(9));
  JobRegistration launcher(folder.path(), job(2));
  ASSERT_NE(launcher.number(), 0U);
  JobRegistration rank(folder.path(), launcher.number());
  EXPECT_THAT(rank.others(), ElementsAre(job(9)));
  rank.update(job(5));
  EXPECT_THAT(stranger.others(), ElementsAre(job(5)));
}

TEST(JobRegistry, FilesOfAnyContentAreLeftOut) {
  const ScratchFolder folder;
  JobRegistration own(folder.path(), job(1));
  const LockedFile empty(folder.path() / "job-2", "");
  const LockedFile nonsense(folder.path() / "job-3", "temper-job 1\nranks many\n");
  const LockedFile huge(folder.path() / "job-4", std::string(1 << 20, 'x'));
  const LockedFile good(folder.path() / "job-5", to_text(job(7)));
  const LockedFile unfinished(folder.path() / ".new-6", to_text(job(8)));
  const LockedFile other(folder.path() / "readme", to_text(job(8)));
  fs::create_directory(folder.path() / "job-7");
  fs::create_symlink("job-5", folder.path() / "job-8");
  ASSERT_EQ(::mkfifo((folder.path() / "job-9").c_str(), 0644), 0);
  EXPECT_THAT(own.others(), ElementsAre(job(7)));
}

TEST(JobRegistry, UnfinishedFilesOfDeadProcessesAreRemovedWhenTheyAreOld) {
  const ScratchFolder folder;
  JobRegistration own(folder.path(), job(1));
  std::ofstream(folder.path() / ".new-1") << "young";
  std::ofstream(folder.path() / ".new-2") << "old";
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder.path() / ".new-2").c_str(), past, 0), 0);
  EXPECT_THAT(own.others(), IsEmpty());
  EXPECT_TRUE(fs::exists(folder.path() / ".new-1"));
  EXPECT_FALSE(fs::exists(folder.path() / ".new-2"));
}

TEST(JobRegistry, AFileThatSomebodyRemovedIsMadeAgain) {
  const ScratchFolder folder;
  JobRegistration own(folder.path(), job(1));
  JobRegistration launcher(folder.path(), job(2));
  JobRegistration rank(folder.path(), launcher.number());
  rank.update(job(3));
  for (const std::uint64_t number : {own.number(), launcher.number()}) {
    fs::remove(folder.path() / concat("job-", number));
  }
  EXPECT_THAT(own.others(), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    own.keep_listed();
    rank.keep_listed();
  }
  EXPECT_THAT(own.others(), ElementsAre(job(3)));
  EXPECT_THAT(rank.others(), ElementsAre(job(1)));
}

TEST(JobRegistry, AFolderThatCannotBeUsedLeavesTheJobAlone) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "file") << "";
  for (const fs::path& bad : {fs::path(), folder.path() / "none", folder.path() / "file"}) {
    JobRegistration registration(bad, job(1));
    EXPECT_EQ(registration.number(), 0U);
    registration.update(job(2));
    EXPECT_THAT(registration.others(), IsEmpty());
    JobRegistration rank(bad, registration.number());
    EXPECT_THAT(rank.others(), IsEmpty());
  }
  JobRegistration gone(folder.path(), std::uint64_t{12345});
  EXPECT_THAT(gone.others(), IsEmpty());
}

TEST(JobRegistry, AFullDiskLeavesTheJobAlone) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    JobRegistration registration(folder.path(), job(1));
    ::_exit(registration.number() == 0 && files_in(folder.path()) == 0 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(JobRegistry, FolderIsMadeForAllUsers) {
  const ScratchFolder folder;
  const fs::path jobs = folder.path() / "jobs";
  ::setenv("TEMPER_JOBS", jobs.c_str(), 1);
  EXPECT_EQ(job_registry_folder(), jobs);
  EXPECT_EQ(job_registry_folder(), jobs);
  struct stat status {};
  ASSERT_EQ(::stat(jobs.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 01777U);
  const JobRegistration registration(jobs, job(1));
  ASSERT_EQ(::stat((jobs / concat("job-", registration.number())).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0644U);

  fs::create_symlink("jobs", folder.path() / "link");
  ::setenv("TEMPER_JOBS", (folder.path() / "link").c_str(), 1);
  EXPECT_EQ(job_registry_folder(), fs::path());
  ::unsetenv("TEMPER_JOBS");
}

}  // namespace
}  // namespace temper
