// The kept scan of a folder: what it saves, and that it is never used when it does not fit.

#include "data/folder_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/data/open_dataset.h"
#include "unit/data/pack_files.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::HasSubstr;

// Counts how often folders are opened.
class FolderWatch {
 public:
  explicit FolderWatch(const std::vector<std::filesystem::path>& folders)
      : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    for (const auto& folder : folders) {
      if (::inotify_add_watch(fd_, folder.c_str(), IN_OPEN | IN_ONLYDIR) < 0) {
        throw std::runtime_error("cannot watch a folder");
      }
    }
  }
  ~FolderWatch() { ::close(fd_); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  [[nodiscard]] std::size_t opened() const {
    alignas(inotify_event) char buffer[4096];
    return ::read(fd_, buffer, sizeof(buffer)) > 0 ? 1 : 0;
  }

 private:
  int fd_;
};

class FolderCache : public testing::Test {
 protected:
  FolderCache() {
    for (const char* name : {"cat/1.png", "cat/2.png", "dog/deep/3.png", "dog/4.png"}) {
      write_png(root() / name, pattern_image(3, 4, 3));
    }
    write_bytes(root() / "cat/.hidden", "x");
  }
  [[nodiscard]] std::filesystem::path root() const { return folder_ / "set"; }
  [[nodiscard]] std::unique_ptr<Dataset> open(const std::string& selector = "") const {
    return open_dataset({.path = root().string() + selector});
  }
  // How many times opening the data set opens a class folder, and what it warns of.
  [[nodiscard]] bool lists_folders(const std::string& selector = "") {
    const FolderWatch watch({root() / "cat", root() / "dog", root() / "dog/deep"});
    testing::internal::CaptureStderr();
    (void)open(selector);
    warning_ = testing::internal::GetCapturedStderr();
    return watch.opened() > 0;
  }
  // Another time, whatever the clock's ticks are.
  static void touch(const std::filesystem::path& folder) {
    const timespec times[2] = {{1'000'000'000, 7}, {1'000'000'000, 7}};
    ASSERT_EQ(::utimensat(AT_FDCWD, folder.c_str(), times, 0), 0);
  }

  ScratchFolder folder_;
  std::string warning_;
};

TEST_F(FolderCache, SavesListingTheClassFolders) {
  const auto before = open();
  EXPECT_TRUE(lists_folders());
  const std::string first_warning = warning_;
  EXPECT_EQ(write_folder_cache(root(), "").labels.size(), 4U);
  EXPECT_FALSE(lists_folders());
  EXPECT_THAT(warning_, HasSubstr("passed over 1 files"));
  EXPECT_THAT(first_warning, HasSubstr("passed over 1 files"));
  const auto after = open();
  EXPECT_EQ(after->fingerprint(), before->fingerprint());
  EXPECT_TRUE(std::ranges::equal(after->labels(), before->labels()));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(after->sample_name(i), before->sample_name(i));
    EXPECT_EQ(after->load(i), before->load(i));
  }
}

TEST_F(FolderCache, MayLieElsewhere) {
  const std::string selector = "#index=" + (folder_ / "kept").string();
  EXPECT_TRUE(lists_folders(selector));
  EXPECT_THAT(warning_, HasSubstr("datatool index"));
  EXPECT_THAT(warning_, HasSubstr("--output"));
  (void)write_folder_cache(root(), folder_ / "kept");
  EXPECT_FALSE(lists_folders(selector));
  EXPECT_TRUE(lists_folders());
  EXPECT_THROW((void)open("#train"), ConfigError);
}

TEST_F(FolderCache, IsNotUsedWhenAFolderHasChanged) {
  for (const char* changed : {"cat", "dog", "dog/deep"}) {
    (void)write_folder_cache(root(), "");
    ASSERT_FALSE(lists_folders());
    touch(root() / changed);
    EXPECT_TRUE(lists_folders());
    EXPECT_THAT(warning_, HasSubstr(concat("the folder ", changed, " has changed")));
    EXPECT_THAT(warning_, HasSubstr(concat("datatool index ", root().string())));
    EXPECT_THAT(warning_, HasSubstr("passed over 1 files"));
  }
}

// A change in the same tick of the clock as the scan would not show: the scan is made later.
TEST_F(FolderCache, IsMadeAfterTheLastChange) {
  const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(300);
  const auto nanoseconds = std::chrono::nanoseconds(soon.time_since_epoch()).count();
  const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  const timespec times[2] = {time, time};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root() / "dog/deep").c_str(), times, 0), 0);
  (void)write_folder_cache(root(), "");
  EXPECT_GT(std::chrono::system_clock::now(), soon);
  write_png(root() / "dog/deep/x.png", pattern_image(3, 4, 3));
  EXPECT_EQ(open()->size(), 5U);
}

TEST_F(FolderCache, IsNotUsedWhenClassesComeOrGo) {
  (void)write_folder_cache(root(), "");
  write_png(root() / "bird/1.png", pattern_image(3, 4, 3));
  EXPECT_TRUE(lists_folders());
  EXPECT_THAT(warning_, HasSubstr("the class folders are others"));
  EXPECT_EQ(open()->class_names().size(), 3U);
  (void)write_folder_cache(root(), "");
  std::filesystem::remove_all(root() / "bird");
  EXPECT_EQ(open()->class_names().size(), 2U);
}

TEST_F(FolderCache, DamageIsNoticed) {
  (void)write_folder_cache(root(), "");
  const auto file = root() / kFolderCacheName;
  const std::string good = read_file(file);
  testing::internal::CaptureStderr();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    write_bytes(file, bad);
    EXPECT_FALSE(load_folder_cache(root(), "")) << "byte " << i;
    if (i % 5 == 0) {
      write_bytes(file, good.substr(0, i));
      EXPECT_FALSE(load_folder_cache(root(), "")) << i << " bytes";
    }
  }
  (void)testing::internal::GetCapturedStderr();
  write_bytes(file, good);
  EXPECT_TRUE(load_folder_cache(root(), ""));
}

TEST_F(FolderCache, NumbersOutOfRangeAreDamageWhateverTheChecksumSays) {
  (void)write_folder_cache(root(), "");
  const auto file = root() / kFolderCacheName;
  const std::string good = read_file(file);
  const std::size_t last = good.size() - 16;  // length of the path, label, size
  for (const std::size_t at : {last, last + 4}) {
    for (const std::uint64_t value : {std::uint64_t{2}, std::uint64_t{UINT32_MAX}}) {
      std::string bad = good;
      put_number(bad, at, value, 4);
      put_number(bad, 12, crc32_of(bytes_of(bad).subspan(16)), 4);
      write_bytes(file, bad);
      EXPECT_TRUE(lists_folders());
      EXPECT_THAT(warning_, HasSubstr("it is damaged"));
    }
  }
}

}  // namespace
}  // namespace temper
