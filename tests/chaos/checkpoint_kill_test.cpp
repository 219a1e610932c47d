// Acceptance case 7: whatever ends a save, and wherever, the checkpoints of before or the new ones
// are there whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "support/scratch_folder.h"
#include "support/traced_child.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/directory.h"
#include "temper/core/disk.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

namespace fs = std::filesystem;
using testing_support::ChildRun;
using testing_support::FileCall;
using testing_support::run_in_child;
using testing_support::run_traced;

Value checkpoint_of(int samples) {
  Value checkpoint = sample_checkpoint();
  checkpoint.as_dict()["progress"] = ValueDict{{"samples", samples}};
  checkpoint.as_dict()["weights"] = at::full({3000}, samples);
  return checkpoint;
}

const Value& old_one() {
  static const Value value = checkpoint_of(10);
  return value;
}
const Value& new_one() {
  static const Value value = checkpoint_of(20);
  return value;
}

// The checkpoints of a run with two epoch files, which saves the third as the best one so far.
class Save : public testing::Test {
 protected:
  void SetUp() override {
    directory().save(checkpoint_of(5), {.epoch = 1});
    directory().save(old_one(), {.epoch = 2, .best = true});
    fs::copy(folder(), scratch_ / "before");
  }

  void begin_again() {
    fs::remove_all(folder());
    fs::copy(scratch_ / "before", folder());
  }
  void save() const { directory().save(new_one(), {.epoch = 3, .best = true}); }

  [[nodiscard]] fs::path folder() const { return scratch_ / "checkpoints"; }
  [[nodiscard]] CheckpointDirectory directory() const { return {folder(), 2}; }

  // After an interrupted save: returns whether the new checkpoint is the one to go on from.
  [[nodiscard]] bool expect_whole() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder())) {
      if (entry.path().extension() == ".pt") {
        EXPECT_NO_THROW(static_cast<void>(read_checkpoint(entry.path()))) << entry.path();
      }
    }
    const NewestCheckpoint newest = directory().newest_valid();
    EXPECT_TRUE(newest.rejected.empty());
    if (!newest.checkpoint) {
      ADD_FAILURE() << "no checkpoint is valid";
      return false;
    }
    const bool is_new = identical(*newest.checkpoint, new_one());
    EXPECT_TRUE(is_new || identical(*newest.checkpoint, old_one()));
    if (is_new) {  // then the run does not make this one again
      EXPECT_TRUE(identical(read_checkpoint(directory().best()), new_one()));
    }
    return is_new;
  }

  // The next start cleans up, and the same save works.
  void expect_next_save_works() const {
    remove_interrupted_writes(folder());
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder())) {
      EXPECT_EQ(entry.path().extension(), ".pt") << entry.path();
    }
    save();
    for (const fs::directory_entry& entry : fs::directory_iterator(folder())) {
      names.push_back(entry.path().filename());
    }
    EXPECT_THAT(names, testing::UnorderedElementsAre("best.pt", "epoch-0002.pt", "epoch-0003.pt",
                                                     "last.pt"));
    EXPECT_TRUE(expect_whole());
  }

  ScratchFolder scratch_;
};

TEST_F(Save, KilledAtAnySystemCallKeepsAWholeCheckpoint) {
  const ChildRun whole = run_traced([&] { save(); });
  ASSERT_EQ(whole.status, 0);
  ASSERT_GT(whole.calls.size(), 50U);
  bool was_new = false;
  for (std::size_t place = 0; place < whole.calls.size(); ++place) {
    const FileCall& call = whole.calls[place];
    SCOPED_TRACE(concat("killed at call ", place, ", ", call.name, " ", call.path));
    begin_again();
    const ChildRun killed = run_traced([&] { save(); }, place);
    EXPECT_EQ(killed.status, 128 + SIGKILL);
    const bool is_new = expect_whole();
    EXPECT_TRUE(is_new || !was_new) << "what was saved is lost again";
    was_new = is_new;
    expect_next_save_works();
  }
  EXPECT_TRUE(was_new);
}

// A write that ends in the middle: the limit's signal kills the process there.
TEST_F(Save, KilledAtAnyByteKeepsAWholeCheckpoint) {
  save();
  const auto size = static_cast<rlim_t>(fs::file_size(directory().last()));
  std::mt19937 random(7);  // NOLINT: the same places each time
  for (int i = 0; i < 50; ++i) {
    const rlim_t limit = random() % size;
    SCOPED_TRACE(limit);
    begin_again();
    const int status = run_in_child([&] {
      ::signal(SIGXFSZ, SIG_DFL);
      const rlimit none{.rlim_cur = 0, .rlim_max = 0};
      ::setrlimit(RLIMIT_CORE, &none);
      const rlimit file{.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &file);
      save();
    });
    EXPECT_EQ(status, 128 + SIGXFSZ);
    EXPECT_FALSE(expect_whole());
    expect_next_save_works();
  }
}

TEST_F(Save, IsOnTheDiskBeforeItIsRenamed) {
  const ChildRun whole = run_traced([&] { save(); });
  const auto index_of = [&](std::string_view name, const fs::path& path, std::size_t from) {
    const auto found =
        std::find_if(whole.calls.begin() + static_cast<std::ptrdiff_t>(from), whole.calls.end(),
                     [&](const FileCall& call) { return call.name == name && call.path == path; });
    return static_cast<std::size_t>(found - whole.calls.begin());
  };
  std::vector<std::string> targets;
  for (std::size_t i = 0; i < whole.calls.size(); ++i) {
    const FileCall& call = whole.calls[i];
    if (call.name != "rename") {
      continue;
    }
    targets.push_back(fs::path(call.target).filename());
    EXPECT_EQ(fs::path(call.path).parent_path(), fs::path(call.target).parent_path());
    EXPECT_LT(index_of("fsync", call.path, 0), i) << call.target;
    EXPECT_EQ(index_of("write", call.path, index_of("fsync", call.path, 0)), whole.calls.size())
        << call.target << " is written to after it was synced";
    EXPECT_EQ(index_of("fsync", folder(), i), i + 1) << "the folder is not synced";
  }
  EXPECT_THAT(targets, testing::ElementsAre("best.pt", "epoch-0003.pt", "last.pt"));
}

struct Refusal {
  const char* name;
  long call;
  int code;
};

class Refused : public Save, public testing::WithParamInterface<Refusal> {};

// Every call of a kind fails, as on a full or broken disk.
TEST_P(Refused, KeepsTheOldCheckpointAndSaysWhy) {
  const Refusal& refusal = GetParam();
  const int status = run_in_child([&] {
    testing_support::make_call_fail(refusal.call, refusal.code);
    try {
      save();
    } catch (const SystemError& error) {
      require(error.code() == refusal.code, error.what());
      require(
          std::string(error.what()).find((folder() / "best.pt").string()) != std::string::npos ||
              std::string(error.what()).find((folder() / ".best.pt").string()) != std::string::npos,
          error.what());
      ::_exit(42);
    }
  });
  EXPECT_EQ(status, 42);
  EXPECT_FALSE(expect_whole());
  expect_next_save_works();
}

#ifdef SYS_rename
constexpr long kRename = SYS_rename;
#else
constexpr long kRename = SYS_renameat2;
#endif

INSTANTIATE_TEST_SUITE_P(Calls, Refused,
                         testing::Values(Refusal{"full", SYS_write, ENOSPC},
                                         Refusal{"quota", SYS_write, EDQUOT},
                                         Refusal{"broken", SYS_fsync, EIO},
                                         Refusal{"read_only", kRename, EROFS}),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace temper
