#include "temper/checkpoint/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value checkpoint_of(int samples) {
  return ValueDict{{"progress", ValueDict{{"samples", samples}}}};
}

std::int64_t samples_of(const NewestCheckpoint& newest) {
  return newest.checkpoint->as_dict().at("progress").as_dict().at("samples").as_int();
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

void damage(const std::filesystem::path& path) {
  std::string content = read_file(path);
  content[content.size() / 3] ^= 1;
  content.resize(content.size() - 1);
  write_file_atomically(path, content);
}

TEST(CheckpointDirectory, KeepsTheNewestEpochs) {
  const ScratchFolder folder;
  const CheckpointDirectory directory(folder / "checkpoints", 2);
  for (int epoch = 8; epoch <= 11; ++epoch) {
    directory.save(checkpoint_of(epoch), {.epoch = epoch, .best = epoch == 9});
  }
  EXPECT_THAT(names_in(folder / "checkpoints"),
              ElementsAre("best.pt", "epoch-0010.pt", "epoch-0011.pt", "last.pt"));
  EXPECT_EQ(samples_of(directory.newest_valid()), 11);
}

TEST(CheckpointDirectory, KeepZeroWritesNoEpochFile) {
  const ScratchFolder folder;
  CheckpointDirectory(folder.path(), 0).save(checkpoint_of(1), {.epoch = 1});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("last.pt"));
}

// As after a resume from an older file, the later ones being damaged or no longer wanted.
TEST(CheckpointDirectory, SaveKeepsWhatItWritesAndRemovesLaterEpochsFirst) {
  for (const bool best : {false, true}) {
    const ScratchFolder folder;
    const CheckpointDirectory all(folder.path(), 9);
    for (int epoch = 1; epoch <= 6; ++epoch) {
      all.save(checkpoint_of(epoch), {.epoch = epoch});
    }
    const CheckpointDirectory one(folder.path(), 1);
    one.save(checkpoint_of(20), {.epoch = 2, .best = best});
    std::vector<std::string> expected{"epoch-0002.pt", "last.pt"};
    if (best) {
      expected.insert(expected.begin(), "best.pt");
    }
    EXPECT_EQ(names_in(folder.path()), expected);
    EXPECT_EQ(samples_of(one.newest_valid()), 20);
  }
}

TEST(CheckpointDirectory, LaterEpochsFillThePlacesThatAreFree) {
  const ScratchFolder folder;
  const CheckpointDirectory directory(folder.path(), 3);
  for (const int epoch : {4, 5, 6, 2}) {
    directory.save(checkpoint_of(epoch), {.epoch = epoch});
  }
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("epoch-0002.pt", "epoch-0005.pt", "epoch-0006.pt", "last.pt"));
  directory.save(checkpoint_of(3), {.epoch = 3});
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("epoch-0002.pt", "epoch-0003.pt", "epoch-0006.pt", "last.pt"));
}

TEST(CheckpointDirectory, SaveNeverRemovesTheFileThatIsSpared) {
  const ScratchFolder folder;
  CheckpointDirectory(folder.path(), 9).save(checkpoint_of(2), {.epoch = 2});
  const CheckpointDirectory directory(folder.path(), 1, folder / "./epoch-0002.pt");
  for (int epoch = 3; epoch <= 5; ++epoch) {
    directory.save(checkpoint_of(epoch), {.epoch = epoch});
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("epoch-0002.pt", "epoch-0005.pt", "last.pt"));
}

TEST(CheckpointDirectory, SaveThatFailsRemovesNoOldEpoch) {
  const ScratchFolder folder;
  const CheckpointDirectory directory(folder.path(), 1);
  directory.save(checkpoint_of(1), {.epoch = 1});
  std::filesystem::remove(directory.last());
  std::filesystem::create_directory(directory.last());
  EXPECT_THROW(directory.save(checkpoint_of(2), {.epoch = 2}), SystemError);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("epoch-0001.pt", "epoch-0002.pt", "last.pt"));
}

TEST(CheckpointDirectory, EmptyOrMissingFolderHasNone) {
  const ScratchFolder folder;
  EXPECT_FALSE(CheckpointDirectory(folder.path(), 2).newest_valid().checkpoint);
  EXPECT_FALSE(CheckpointDirectory(folder / "missing", 2).newest_valid().checkpoint);
}

TEST(CheckpointDirectory, DamagedFilesArePassedOverWithTheReason) {
  const ScratchFolder folder;
  const CheckpointDirectory directory(folder.path(), 3);
  directory.save(checkpoint_of(10), {.epoch = 1});
  directory.save(checkpoint_of(20), {.epoch = 2, .best = true});
  directory.save(checkpoint_of(30), {.epoch = 3});
  directory.save(checkpoint_of(35));

  damage(directory.last());
  NewestCheckpoint newest = directory.newest_valid();
  EXPECT_EQ(samples_of(newest), 30);
  EXPECT_EQ(newest.path, directory.epoch(3));
  ASSERT_EQ(newest.rejected.size(), 1U);
  EXPECT_EQ(newest.rejected[0].path, directory.last());
  EXPECT_THAT(newest.rejected[0].reason, HasSubstr("last.pt: "));

  damage(directory.epoch(3));
  damage(directory.epoch(2));
  newest = directory.newest_valid();
  EXPECT_EQ(newest.path, directory.best());
  EXPECT_EQ(newest.rejected.size(), 3U);

  std::filesystem::remove(directory.best());
  std::filesystem::remove(directory.epoch(1));
  newest = directory.newest_valid();
  EXPECT_FALSE(newest.checkpoint);
  EXPECT_EQ(newest.rejected.size(), 3U);
}

TEST(CheckpointDirectory, SaveRemovesWhatAnInterruptedSaveLeft) {
  const ScratchFolder folder;
  write_file_atomically(folder / ".last.pt.123.tmp", "half");
  write_file_atomically(folder / "notes.txt", "mine");
  CheckpointDirectory(folder.path(), 2).save(checkpoint_of(1));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("last.pt", "notes.txt"));
}

TEST(CheckpointDirectory, FolderThatCannotBeMadeIsASystemError) {
  const ScratchFolder folder;
  write_file_atomically(folder / "file", "");
  EXPECT_THROW(CheckpointDirectory(folder / "file/sub", 1).save(checkpoint_of(1)), SystemError);
}

}  // namespace
}  // namespace temper
