#include "temper/core/file.h"

#include <gtest/gtest.h>

#include "temper/core/error.h"

namespace temper {
namespace {

std::filesystem::path scratch_folder(const char* name) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(File, AtomicWriteReplacesTheContent) {
  const auto folder = scratch_folder("temper_file_replace");
  write_file_atomically(folder / "a", "one");
  write_file_atomically(folder / "a", "two");
  EXPECT_EQ(read_file(folder / "a"), "two");
}

TEST(File, FailedWriteKeepsTheOldFileAndLeavesNothing) {
  const auto folder = scratch_folder("temper_file_failed");
  write_file_atomically(folder / "a", "one");
  const auto fail = [](const std::filesystem::path& temporary) {
    write_file_atomically(temporary, "half");
    throw std::runtime_error("disk full");
  };
  EXPECT_THROW(replace_file_atomically(folder / "a", fail), std::runtime_error);
  EXPECT_EQ(read_file(folder / "a"), "one");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(File, MissingFolderIsNamedWithTheReason) {
  try {
    write_file_atomically("/nonexistent/folder/file", "x");
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos);
  }
}

}  // namespace
}  // namespace temper
