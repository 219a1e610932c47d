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
