// A checkpoint that was damaged or interrupted is never loaded as something else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "checkpoint/archive.h"
#include "checkpoint/container_writer.h"
#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

struct Damage {
  int detected = 0;
  int harmless = 0;
};

// Reads a damaged file. Anything but an identical value or a DataError that names the file is a
// failure.
template <typename Read>
void expect_safe(const std::filesystem::path& file, const Value& value, const Read& read,
                 Damage& damage) {
  try {
    EXPECT_TRUE(identical(read(file), value)) << "a damaged file was read as another value";
    ++damage.harmless;
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(file.string() + ": "));
    ++damage.detected;
  }
}

// Reads `file` with each of its bytes damaged, one at a time.
template <typename Read>
Damage flip_each_byte(const std::filesystem::path& file, const Value& value, const Read& read) {
  const std::string good = read_file(file);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&stream](std::size_t position, int byte) {
    stream.seekp(static_cast<std::streamoff>(position)).put(static_cast<char>(byte)).flush();
  };
  Damage damage;
  for (std::size_t i = 0; i < good.size(); ++i) {
    SCOPED_TRACE(i);
    put(i, good[i] ^ (1 << (i % 8)));
    expect_safe(file, value, read, damage);
    put(i, good[i]);
  }
  EXPECT_TRUE(stream.good());
  return damage;
}

TEST(Damage, EveryFlippedByteIsDetectedOrHarmless) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", sample_checkpoint());
  const Damage damage = flip_each_byte(folder / "a.pt", sample_checkpoint(), read_checkpoint);
  // Padding, dates and names of local headers do not matter; all that holds data does.
  EXPECT_GT(damage.detected, damage.harmless);
}

TEST(Damage, EveryFlippedByteOfAPyTorchFileIsDetectedOrHarmless) {
  const ScratchFolder folder;
  std::filesystem::copy_file(
      std::filesystem::path(TEMPER_SOURCE_DIR) / "tests/unit/checkpoint/data/module_prefix.pt",
      folder / "a.pt");
  const Value value = read_pytorch_file(folder / "a.pt");
  EXPECT_GT(flip_each_byte(folder / "a.pt", value, read_pytorch_file).detected, 500);
}

TEST(Damage, EveryTruncationIsDetected) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", sample_checkpoint());
  Damage damage;
  for (std::uintmax_t size = std::filesystem::file_size(folder / "a.pt"); size-- > 0;) {
    std::filesystem::resize_file(folder / "a.pt", size);
    expect_safe(folder / "a.pt", sample_checkpoint(), read_checkpoint, damage);
  }
  EXPECT_EQ(damage.harmless, 0);
}

// A file with consistent archive checksums whose records do not belong together.
void write_mixed(const std::filesystem::path& path, const std::filesystem::path& base,
                 const std::filesystem::path& other, const std::string& record_of_other) {
  const ArchiveReader from(base);
  const ArchiveReader instead(other);
  std::string bytes;
  ArchiveWriter archive("checkpoint", [&](std::string_view part) { bytes += part; });
  for (const char* name : {"data.pkl", "byteorder", "data/0", "version", "manifest.json"}) {
    const std::string content = (name == record_of_other ? instead : from).read(name);
    archive.add(name, content, crc32_of(content));
  }
  archive.finish();
  write_file_atomically(path, bytes);
}

TEST(Damage, RecordsOfAnotherCheckpointAreDetected) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", ValueDict{{"w", at::zeros({2, 3})}});
  write_checkpoint(folder / "b.pt", ValueDict{{"w", at::ones({3, 2})}});
  write_mixed(folder / "c.pt", folder / "a.pt", folder / "b.pt", "none");
  EXPECT_NO_THROW(static_cast<void>(read_checkpoint(folder / "c.pt")));
  for (const char* name : {"data.pkl", "data/0", "manifest.json"}) {
    write_mixed(folder / "c.pt", folder / "a.pt", folder / "b.pt", name);
    EXPECT_THROW(static_cast<void>(read_checkpoint(folder / "c.pt")), DataError) << name;
  }
}

TEST(Damage, FailedWriteKeepsTheOldFile) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", ValueDict{{"old", 1}});
  for (const std::uint64_t limit : {1U, 500U, 2000U, 4000U}) {
    const auto fail = [limit](std::uint64_t written) {
      if (written >= limit) {
        throw std::runtime_error("disk full");
      }
    };
    EXPECT_THROW(write_checkpoint_observed(folder / "a.pt", sample_checkpoint(), fail),
                 std::runtime_error);
    EXPECT_TRUE(identical(read_checkpoint(folder / "a.pt"), ValueDict{{"old", 1}}));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(DamageDeathTest, KillDuringAWriteKeepsTheOldFile) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  // A child runs the whole test again, so that the place must be the same for both.
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "temper_checkpoint_kill";
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / "a.pt";
  write_checkpoint(file, ValueDict{{"old", 1}});
  for (const std::uint64_t limit : {1U, 1000U, 3000U}) {
    const auto kill = [limit](std::uint64_t written) {
      if (written >= limit) {
        ::raise(SIGKILL);
      }
    };
    EXPECT_EXIT(write_checkpoint_observed(file, sample_checkpoint(), kill),
                testing::KilledBySignal(SIGKILL), "");
    EXPECT_TRUE(identical(read_checkpoint(file), ValueDict{{"old", 1}}));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace temper
