// The pack format: what is written comes back, and no damaged file is taken for a good one.

#include "temper/data/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "data/data_file.h"
#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/data/open_dataset.h"
#include "unit/data/pack_files.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::HasSubstr;

// Where the numbers of the first record stand in a pack with the class names "cat" and "dog".
constexpr std::size_t kFirstRecord = 4 + 2 * (4 + 3);

template <typename Error>
std::string error_of(const std::filesystem::path& path, int classes = 0) {
  try {
    const auto dataset = open_dataset({"pack", path.string(), 0, classes});
    for (std::size_t i = 0; i < dataset->size(); ++i) {
      (void)dataset->load(i);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool is_refused(const std::filesystem::path& path) {
  try {
    return error_of<DataError>(path) != "no error";
  } catch (const ConfigError&) {
    return true;
  }
}

class Pack : public testing::Test {
 protected:
  Pack() {
    for (unsigned i = 0; i < 7; ++i) {
      write_png(folder_ / concat("set/", i % 3 == 0 ? "cat" : "dog/deep", "/", 10 + i, ".png"),
                pattern_image(4 + static_cast<int>(i), 5, i == 2 ? 1 : 3, i));
    }
    source_ = open_dataset({.path = (folder_ / "set").string()});
  }

  std::unique_ptr<Dataset> packed(const PackOptions& options, int channels = 0) {
    const auto path = folder_ / concat("out", count_++, ".pack");
    (void)pack_dataset(*source_, path, options);
    return open_dataset({"pack", path.string(), channels, 2});
  }

  // A pack of pixels, as bytes.
  std::string pixel_pack() {
    (void)pack_dataset(*source_, folder_ / "pixels.pack", {.pixels = true});
    return read_file(folder_ / "pixels.pack");
  }

  std::string error_after(std::string file, std::size_t at, std::uint64_t value,
                          std::size_t bytes = 8) {
    put_number(file, at, value, bytes);
    repair_pack(file);
    write_bytes(folder_ / "bad.pack", file);
    return error_of<DataError>(folder_ / "bad.pack");
  }

  void expect_equal(const Dataset& a, const Dataset& b) {
    ASSERT_EQ(a.size(), b.size());
    EXPECT_TRUE(std::ranges::equal(a.labels(), b.labels()));
    EXPECT_TRUE(std::ranges::equal(a.class_names(), b.class_names()));
    EXPECT_EQ(a.fingerprint(), b.fingerprint());
    EXPECT_EQ(a.channels(), b.channels());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a.load(i), b.load(i)) << i;
      EXPECT_EQ(a.local_name(i), b.local_name(i));
    }
  }

  ScratchFolder folder_;
  std::unique_ptr<Dataset> source_;
  int count_ = 0;
};

TEST_F(Pack, OfAFolderHoldsTheSameSamples) {
  for (const int shards : {0, 1, 3, 5, 7}) {
    const auto pack = packed({.shards = shards, .threads = 3});
    expect_equal(*pack, *source_);
    EXPECT_EQ(pack->describe(1).format, "png");
    Buffer ours;
    Buffer theirs;
    const StoredSample a = pack->read(4, ours);
    const StoredSample b = source_->read(4, theirs);
    EXPECT_TRUE(
        std::ranges::equal(std::get<EncodedImage>(a).bytes, std::get<EncodedImage>(b).bytes));
  }
  EXPECT_THAT(packed({.shards = 3})->sample_name(6),
              testing::EndsWith("part-00002-of-00003.pack:dog/deep/15.png"));
}

TEST_F(Pack, OfPixelsHoldsThemDecoded) {
  for (const int shards : {0, 2}) {
    const auto pack = packed({.shards = shards, .pixels = true, .threads = 2});
    expect_equal(*pack, *source_);
    Buffer buffer;
    EXPECT_EQ(std::get<ImageView>(pack->read(3, buffer)).height, 5);
    EXPECT_EQ(pack->describe(0).format, "pack uint8");
  }
  EXPECT_EQ(packed({.pixels = true}, 1)->load(2).channels, 1);
}

TEST_F(Pack, KeepsFloatsAndGray) {
  const std::vector<float> values = {0, 0.25F, 0.5F, 1, 0.1F, 0.2F, 0.3F, 0.4F};
  write_bytes(folder_ / "f.npz", zip({{"images.npy", npy("<f4", "(2, 2, 2)", raw_bytes(values))},
                                      {"labels.npy", npy("|u1", "(2,)", std::string("\1\0", 2))}}));
  source_ = open_dataset({"npz", (folder_ / "f.npz").string(), 0, 0});
  const auto pack = packed({});
  expect_equal(*pack, *source_);
  EXPECT_EQ(pack->element_type(), ElementType::kFloat32);
}

TEST_F(Pack, FloatsOutOfRangeAreRefusedWhenRead) {
  write_bytes(folder_ / "f.npz",
              zip({{"images.npy", npy("<f4", "(1, 1, 1)", raw_bytes<float>({0.5F}))},
                   {"labels.npy", npy("|u1", "(1,)", std::string(1, '\0'))}}));
  const auto source = open_dataset({"npz", (folder_ / "f.npz").string(), 0, 0});
  (void)pack_dataset(*source, folder_ / "f.pack", {});
  std::string file = read_file(folder_ / "f.pack");
  const std::uint64_t index = number_at(file, 56);
  const std::size_t record = index + 4 + 4 + 1;
  const float bad = 1.5F;
  file.replace(number_at(file, record), 4, reinterpret_cast<const char*>(&bad), 4);
  put_number(file, record + 28, crc32_of(bytes_of(file).subspan(number_at(file, record), 4)), 4);
  repair_pack(file);
  write_bytes(folder_ / "f.pack", file);
  EXPECT_THAT(error_of<DataError>(folder_ / "f.pack"), HasSubstr("f.pack:0: a pixel is not in"));
}

// Float32 elements of 2^31 x 2^31 pixels are 0 bytes in 64 bits.
TEST_F(Pack, ShapesBeyondSixtyFourBitsAreRefused) {
  write_bytes(folder_ / "f.npz",
              zip({{"images.npy", npy("<f4", "(1, 1, 1)", raw_bytes<float>({0.5F}))},
                   {"labels.npy", npy("|u1", "(1,)", std::string(1, '\0'))}}));
  const auto source = open_dataset({"npz", (folder_ / "f.npz").string(), 0, 0});
  (void)pack_dataset(*source, folder_ / "f.pack", {});
  std::string file = read_file(folder_ / "f.pack");
  const std::size_t record = number_at(file, 56) + 4 + 4 + 1;
  put_number(file, record + 8, 0);
  put_number(file, record + 32, 0x80000000, 4);
  EXPECT_THAT(error_after(file, record + 36, 0x80000000, 4), HasSubstr("is a damaged pack"));
}

TEST_F(Pack, EveryByteIsChecked) {
  for (const bool pixels : {false, true}) {
    const auto path = folder_ / concat("whole", pixels, ".pack");
    (void)pack_dataset(*source_, path, {.pixels = pixels});
    const std::string good = read_file(path);
    const auto bad_path = folder_ / "changed.pack";
    std::size_t unnoticed = 0;
    const std::size_t index = number_at(good, 56);
    for (std::size_t i = 0; i < good.size(); i += i < kPackHeaderSize || i > index ? 1 : 11) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x10);
      write_bytes(bad_path, bad);
      unnoticed += is_refused(bad_path) ? 0 : 1;
    }
    // The gaps between pixels mean nothing.
    EXPECT_LE(unnoticed, pixels ? 7 * (kPackAlignment - 1) / 11 + 1 : 0);
    for (std::size_t size = 0; size < good.size(); size += 23) {
      write_bytes(bad_path, good.substr(0, size));
      EXPECT_TRUE(is_refused(bad_path)) << size << " bytes";
    }
  }
}

TEST_F(Pack, DamageOfASampleNamesItAndItsBytes) {
  (void)pack_dataset(*source_, folder_ / "x.pack", {});
  std::string file = read_file(folder_ / "x.pack");
  file[100] = static_cast<char>(file[100] ^ 1);
  write_bytes(folder_ / "x.pack", file);
  EXPECT_THAT(error_of<DataError>(folder_ / "x.pack"),
              HasSubstr("x.pack:cat/10.png: wrong checksum of the bytes 80 to "));
}

TEST_F(Pack, NumbersThatDoNotFitTheFileAreRefused) {
  const std::string file = pixel_pack();
  const std::size_t record = number_at(file, 56) + kFirstRecord;
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  const auto refused = HasSubstr("is a damaged pack");
  EXPECT_EQ(error_after(file, record, number_at(file, record)), "no error");
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{64}, kHuge, UINT64_MAX}) {
    EXPECT_THAT(error_after(file, record, value), refused) << "offset " << value;
    EXPECT_THAT(error_after(file, record + 8, value), refused) << "size " << value;
  }
  EXPECT_THAT(error_after(file, record + 16, kHuge), refused) << "name";
  EXPECT_THAT(error_after(file, record + 24, 2, 4), refused) << "label";
  for (const std::size_t field : {32U, 36U, 40U}) {
    EXPECT_THAT(error_after(file, record + field, 0x10000, 4), refused) << "shape";
    EXPECT_THAT(error_after(file, record + field, UINT32_MAX, 4), refused) << "shape";
  }
  for (const std::size_t field : {24U, 32U, 40U, 56U, 64U}) {
    EXPECT_THAT(error_after(file, field, kHuge), refused) << "header " << field;
    EXPECT_THAT(error_after(file, field, UINT64_MAX), refused) << "header " << field;
  }
  EXPECT_THAT(error_after(file, 24, 0), refused) << "no samples";
  EXPECT_THAT(error_after(file, 12, 3, 4), refused) << "content";
  EXPECT_THAT(error_after(file, 20, 0, 4), refused) << "shards";
  EXPECT_THAT(error_after(file, number_at(file, 56), UINT32_MAX, 4), refused) << "classes";
  EXPECT_THAT(error_after(file, number_at(file, 56) + 4, UINT32_MAX, 4), refused) << "class name";
}

TEST_F(Pack, OtherFilesAndVersionsAreConfigurationErrors) {
  write_bytes(folder_ / "photo.pack", "GIF89a");
  EXPECT_THAT(error_of<ConfigError>(folder_ / "photo.pack"), HasSubstr("is no pack"));
  EXPECT_THAT(error_of<ConfigError>(folder_ / "none.pack"), HasSubstr("is not there"));
  EXPECT_THAT(error_of<ConfigError>(folder_ / "set"), HasSubstr("holds no shard"));
  std::string file = pixel_pack();
  put_number(file, 8, 2, 4);
  write_bytes(folder_ / "new.pack", file);
  EXPECT_THAT(error_of<ConfigError>(folder_ / "new.pack"), HasSubstr("format version 2"));
  EXPECT_THAT(error_of<ConfigError>(folder_ / "pixels.pack", 3),
              HasSubstr("holds 2 classes, but data.classes is 3"));
}

TEST_F(Pack, ShardsBelongTogether) {
  (void)pack_dataset(*source_, folder_ / "many", {.shards = 3});
  const auto second = folder_ / "many/part-00001-of-00003.pack";
  EXPECT_THAT(error_of<ConfigError>(second), HasSubstr("is shard 2 of 3; give the folder"));
  std::filesystem::rename(second, folder_ / "kept");
  EXPECT_THAT(error_of<ConfigError>(folder_ / "many"), HasSubstr("is missing"));
  std::filesystem::copy(folder_ / "many/part-00002-of-00003.pack", second);
  EXPECT_THAT(error_of<ConfigError>(folder_ / "many"), HasSubstr("does not belong"));
  std::filesystem::rename(folder_ / "kept", second);
  EXPECT_EQ(error_of<ConfigError>(folder_ / "many"), "no error");
  std::filesystem::rename(folder_ / "set/cat/10.png", folder_ / "set/cat/11.png");
  const auto changed = open_dataset({.path = (folder_ / "set").string()});
  (void)pack_dataset(*changed, folder_ / "other", {.shards = 3});
  std::filesystem::copy(folder_ / "other/part-00001-of-00003.pack", second,
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(error_of<ConfigError>(folder_ / "many"), HasSubstr("does not belong"));
}

TEST_F(Pack, ARefusalLeavesNothingBehind) {
  EXPECT_THROW((void)pack_dataset(*source_, folder_ / "set", {}), ConfigError);
  EXPECT_THROW((void)pack_dataset(*source_, folder_ / "x", {.shards = 8}), ConfigError);
  std::filesystem::remove(folder_ / "set/dog/deep/15.png");
  for (const int shards : {0, 2}) {
    try {
      (void)pack_dataset(*source_, folder_ / "x", {.shards = shards, .threads = 2});
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("15.png"));
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST(DataFile, MappedAndReadBytesAreTheSame) {
  const ScratchFolder folder;
  write_bytes(folder / "x", "0123456789");
  const DataFile mapped(folder / "x");
  const DataFile read(folder / "x", Mapping::kNever);
  EXPECT_FALSE(read.is_mapped());
  Buffer a;
  Buffer b;
  EXPECT_TRUE(std::ranges::equal(mapped.view(3, 4, a), read.view(3, 4, b)));
  EXPECT_EQ(read.view(3, 4, b)[0], '3');
  EXPECT_EQ(a.capacity() == 0, mapped.is_mapped());
  EXPECT_THROW((void)mapped.view(7, 4, a), CheckFailure);
}

}  // namespace
}  // namespace temper
