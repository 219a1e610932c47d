#include "temper/launch/run_directory.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "temper-runs-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] std::string refusal(const RunDirectoryOptions& options) const {
    try {
      static_cast<void>(choose_run_directory(options));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path root_;
};

TEST_F(RunDirectory, NumbersGoOnFromTheHighest) {
  const RunDirectoryOptions options{.output = root_ / "runs", .name = "digits"};
  EXPECT_EQ(choose_run_directory(options), root_ / "runs/digits/001");
  EXPECT_EQ(choose_run_directory(options), root_ / "runs/digits/002");
  fs::create_directory(root_ / "runs/digits/041");
  fs::create_directory(root_ / "runs/digits/notes");
  EXPECT_EQ(choose_run_directory(options), root_ / "runs/digits/042");
}

TEST_F(RunDirectory, RunsAtTheSameTimeGetDifferentOnes) {
  std::vector<fs::path> chosen(16);
  {
    std::vector<std::jthread> threads;
    for (fs::path& choice : chosen) {
      threads.emplace_back(
          [&] { choice = choose_run_directory({.output = root_ / "runs", .name = "digits"}); });
    }
  }
  EXPECT_EQ(std::set<fs::path>(chosen.begin(), chosen.end()).size(), chosen.size());
}

TEST_F(RunDirectory, ExplicitOneMayExist) {
  const RunDirectoryOptions options{.directory = root_ / "a" / "b"};
  EXPECT_EQ(choose_run_directory(options), root_ / "a/b");
  EXPECT_EQ(choose_run_directory(options), root_ / "a/b");
  EXPECT_TRUE(fs::is_empty(root_ / "a/b"));
}

TEST_F(RunDirectory, FileInTheWayIsNamedAndNothingStays) {
  std::ofstream(root_ / "file") << "x";
  EXPECT_THAT(refusal({.directory = root_ / "file"}), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal({.directory = root_ / "file" / "run"}), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal({.output = root_ / "new" / ".." / "file", .name = "n"}),
              HasSubstr("Not a directory"));
  EXPECT_FALSE(fs::exists(root_ / "new"));
}

TEST_F(RunDirectory, UnwritablePlaceGivesTheSystemsReason) {
  // /proc refuses also the superuser.
  EXPECT_THAT(refusal({.directory = "/proc/temper"}), HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal({.directory = "/proc/self"}),
              testing::AnyOf(HasSubstr("Permission denied"), HasSubstr("No such file")));
}

TEST_F(RunDirectory, NameMustBeOneFolder) {
  for (const char* name : {"", "..", "a/b"}) {
    EXPECT_THAT(refusal({.output = root_, .name = name}), HasSubstr("run.name"));
  }
}

TEST_F(RunDirectory, SlurmJobNamesItAndComesBack) {
  const RunDirectoryOptions options{.output = root_ / "runs", .name = "digits", .job = "1234_7"};
  EXPECT_EQ(choose_run_directory(options), root_ / "runs/digits/1234_7");
  EXPECT_EQ(choose_run_directory(options), root_ / "runs/digits/1234_7");
  RunDirectoryOptions chosen = options;
  chosen.directory = root_ / "other";
  EXPECT_EQ(choose_run_directory(chosen), root_ / "other");
}

TEST_F(RunDirectory, RestartFindsTheFolderOfItsAgents) {
  const auto start = [&](const std::string& id, std::vector<std::string> agents, int restarts) {
    return choose_run_directory({.output = root_,
                                 .name = "n",
                                 .identity = LaunchIdentity{.run_id = id,
                                                            .master = "a:1",
                                                            .agents = std::move(agents),
                                                            .restart_count = restarts}});
  };
  EXPECT_EQ(start("none", {"h1/10/5", "h2/20/5"}, 0), root_ / "n/001");
  EXPECT_EQ(start("none", {"h1/11/5"}, 0), root_ / "n/002");
  EXPECT_EQ(start("none", {"h2/20/5", "h3/1/1"}, 1), root_ / "n/001");
  EXPECT_EQ(start("none", {"h1/11/5"}, 3), root_ / "n/002");
  EXPECT_EQ(start("other", {"h1/11/5"}, 1), root_ / "n/003");
  EXPECT_EQ(start("none", {"h1/10/6"}, 1), root_ / "n/004");  // another process of that number
}

TEST_F(RunDirectory, RestartKnowsWhatIsOfItsOwnLaunch) {
  const LaunchIdentity first{.job = "7", .run_id = "x", .agents = {"h1/10/5", "h2/20/5"}};
  std::ofstream(root_ / "run.json") << "{\"launch\": " << to_json(first) << "}";
  const auto is_restart = [&](LaunchIdentity identity, int requeues = 0) {
    return is_restart_of(root_ / "run.json", identity, requeues);
  };
  EXPECT_FALSE(is_restart(first));
  EXPECT_TRUE(is_restart({.run_id = "x", .agents = {"h2/20/5"}, .restart_count = 1}));
  EXPECT_FALSE(is_restart({.run_id = "x", .agents = {"h2/21/5"}, .restart_count = 1}));
  EXPECT_FALSE(is_restart({.run_id = "y", .agents = {"h2/20/5"}, .restart_count = 1}));
  EXPECT_TRUE(is_restart({.job = "7", .agents = {"h3/1/1"}}, 1));
  EXPECT_FALSE(is_restart({.job = "8", .agents = {"h3/1/1"}}, 1));
  EXPECT_FALSE(is_restart({.job = "7", .agents = {"h3/1/1"}}, 0));
  EXPECT_FALSE(is_restart_of(root_ / "none.json", {.restart_count = 1}, 1));
}

TEST_F(RunDirectory, AttemptsAreCountedAndAgreedOn) {
  std::ofstream(root_ / "failure.json") << "{}";
  EXPECT_EQ(share_attempt(nullptr, 0, root_, std::chrono::seconds(1)), 1);
  EXPECT_TRUE(fs::exists(root_ / "failure.json"));
  Store host = Store::host({.timeout = std::chrono::seconds(20)});
  EXPECT_EQ(share_attempt(&host, 0, root_, std::chrono::seconds(1)), 2);
  EXPECT_EQ(share_attempt(&host, 1, root_, std::chrono::seconds(1)), 2);
  EXPECT_FALSE(fs::exists(root_ / "failure.json"));
  EXPECT_TRUE(fs::exists(root_ / "logs/attempt-1/failure.json"));
}

TEST_F(RunDirectory, RankZeroTellsTheOthers) {
  Store host = Store::host({.timeout = std::chrono::seconds(20)});
  const RunDirectoryOptions options{.output = root_, .name = "n"};
  fs::path other;
  std::jthread peer([&] {
    Store store = Store::connect("127.0.0.1", host.port(), std::chrono::seconds(20));
    other = share_run_directory(store, 1, options, std::chrono::seconds(20));
  });
  const fs::path own = share_run_directory(host, 0, options, std::chrono::seconds(20));
  peer.join();
  EXPECT_EQ(own, root_ / "n/001");
  EXPECT_EQ(other, own);
}

TEST_F(RunDirectory, RankZeroTellsItsErrorToo) {
  Store host = Store::host({.timeout = std::chrono::seconds(20)});
  const RunDirectoryOptions bad{.directory = "/proc/temper"};
  EXPECT_THROW(share_run_directory(host, 0, bad, std::chrono::seconds(1)), ConfigError);
  EXPECT_THROW(share_run_directory(host, 1, bad, std::chrono::seconds(1)), ConfigError);
}

}  // namespace
}  // namespace temper
