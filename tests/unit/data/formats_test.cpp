// The formats mnist and synthetic of open_dataset.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/data/open_dataset.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift);
  }
  return bytes;
}

std::string idx(const std::vector<std::uint32_t>& shape, const std::string& data) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const std::uint32_t length : shape) {
    file += big_endian(length);
  }
  return file + data;
}

std::string gzip(const std::string& data) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string out(deflateBound(&stream, data.size()) + 32, '\0');
  std::string in = data;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

const std::string kImages = idx({2, 2, 3}, "abcdefABCDEF");
const std::string kLabels = idx({2}, std::string("\3\0", 2));

class Mnist : public testing::Test {
 protected:
  void write(const std::string& images, const std::string& labels = kLabels,
             const std::string& split = "train") {
    write_bytes(folder_ / (split + "-images-idx3-ubyte"), images);
    write_bytes(folder_ / (split + "-labels-idx1-ubyte"), labels);
  }
  std::unique_ptr<Dataset> open(const std::string& selector = "", int channels = 0,
                                int classes = 0) {
    return open_dataset({"mnist", folder_.path().string() + selector, channels, classes});
  }
  template <typename Error>
  std::string error_of(const std::string& images, const std::string& labels = kLabels,
                       int classes = 0) {
    write(images, labels);
    try {
      (void)open("", 0, classes);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  ScratchFolder folder_;
};

TEST_F(Mnist, SplitsHaveTheirFiles) {
  write(kImages);
  write(idx({1, 1, 1}, "x"), idx({1}, "\1"), "t10k");
  for (const char* selector : {"", "#train"}) {
    const auto train = open(selector);
    EXPECT_THAT(train->labels(), ElementsAre(3, 0));
    EXPECT_EQ(train->class_names().size(), 4U);
    EXPECT_EQ(train->load(1),
              (Image{2, 3, 1, std::vector<std::uint8_t>{'A', 'B', 'C', 'D', 'E', 'F'}}));
  }
  EXPECT_EQ(open("#test")->size(), 1U);
  EXPECT_EQ(open("", 3)->load(0).channels, 3);
  EXPECT_EQ(guess_format(folder_.path().string()), "mnist");
  EXPECT_THROW((void)open("#val"), ConfigError);
}

TEST_F(Mnist, GzippedAndOtherwiseNamedFilesAreTheSame) {
  write(kImages);
  const auto plain = open();
  const ScratchFolder other;
  write_bytes(other / "MNIST/raw/train-images.idx3-ubyte.gz", gzip(kImages));
  write_bytes(other / "MNIST/raw/train-labels-idx1-ubyte", kLabels);
  const auto gzipped = open_dataset({"mnist", other.path().string(), 0, 0});
  EXPECT_EQ(gzipped->load(1), plain->load(1));
  EXPECT_EQ(gzipped->fingerprint(), plain->fingerprint());
  const auto file = open_dataset({"mnist", (folder_ / "train-images-idx3-ubyte").string(), 0, 0});
  EXPECT_EQ(file->load(1), plain->load(1));
}

TEST_F(Mnist, DamagedFilesAreDataErrors) {
  EXPECT_THAT(error_of<DataError>("hello"), HasSubstr("is no IDX file"));
  EXPECT_THAT(error_of<DataError>(kImages + "x"), HasSubstr("holds more bytes"));
  EXPECT_THAT(error_of<DataError>(idx({1U << 31, 1U << 31, 1U << 31}, "x")),
              HasSubstr("impossible size"));
  EXPECT_THAT(error_of<DataError>(idx({1U << 20, 1U << 20, 3}, "x")), HasSubstr("cannot hold"));
  EXPECT_THAT(error_of<DataError>(gzip(idx({1U << 20, 1U << 20, 3}, "x"))),
              HasSubstr("cannot hold"));
  for (const std::string& good : {kImages, gzip(kImages)}) {
    for (std::size_t size = 0; size < good.size(); ++size) {
      EXPECT_NE(error_of<DataError>(good.substr(0, size)), "no error") << size;
    }
  }
  std::string bad = gzip(kImages);
  bad[bad.size() - 7] = static_cast<char>(bad[bad.size() - 7] ^ 1);  // in the checksum
  EXPECT_THAT(error_of<DataError>(bad), HasSubstr("wrong checksum"));
  EXPECT_THAT(error_of<DataError>(gzip(kImages) + "junk"), HasSubstr("other bytes behind"));
}

TEST_F(Mnist, FilesThatDoNotFitAreConfigurationErrors) {
  EXPECT_THAT(error_of<ConfigError>(kImages, idx({3}, "abc")), HasSubstr("holds 2 images, but"));
  EXPECT_THAT(error_of<ConfigError>(kLabels), HasSubstr("expected bytes (8) with 3"));
  EXPECT_THAT(error_of<ConfigError>(idx({0, 28, 28}, ""), idx({0}, "")), HasSubstr("of no use"));
  EXPECT_THAT(error_of<ConfigError>(kImages, kLabels, 2), HasSubstr("label 3 is out of range"));
  const ScratchFolder empty;
  try {
    (void)open_dataset({"mnist", empty.path().string(), 0, 0});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("train-images-idx3-ubyte"));
  }
}

std::unique_ptr<Dataset> synthetic(const std::string& text, int channels = 0, int classes = 0) {
  return open_dataset({"synthetic", text, channels, classes});
}

TEST(Synthetic, PathSaysEverything) {
  const auto dataset = synthetic("samples=25,size=7x9,channels=1,classes=4,seed=3");
  EXPECT_EQ(dataset->size(), 25U);
  EXPECT_EQ(dataset->labels()[6], 2);
  EXPECT_EQ(dataset->class_names().size(), 4U);
  const Image image = dataset->load(6);
  EXPECT_EQ(image.height, 7);
  EXPECT_EQ(image.width, 9);
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(synthetic("samples=3", 1, 7)->load(0).channels, 1);
  EXPECT_EQ(synthetic("samples=3", 1, 7)->class_names().size(), 7U);
  EXPECT_EQ(guess_format("samples=3"), "synthetic");
}

// Golden bytes, computed from the published constants of SplitMix64 by another program.
TEST(Synthetic, IsTheSameEverywhere) {
  const auto dataset = synthetic("samples=2,size=2x4,channels=1,classes=2,seed=5");
  EXPECT_THAT(dataset->load(1).bytes(), ElementsAre(65, 84, 141, 109, 192, 14, 35, 145));
  EXPECT_EQ(synthetic("samples=20,seed=5,size=40")->load(3),
            synthetic("samples=30,seed=5,size=40x40")->load(3));
}

TEST(Synthetic, SeedsShareThePatternsOfTheClasses) {
  const Image a = synthetic("samples=20,size=16")->load(3);
  const Image b = synthetic("samples=20,size=16,seed=1")->load(3);
  const Image other_class = synthetic("samples=20,size=16")->load(4);
  EXPECT_NE(a, b);
  std::size_t same = 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.bytes().size(); ++i) {
    same += (a.bytes()[i] & 128) == (b.bytes()[i] & 128) ? 1 : 0;
    different += (a.bytes()[i] & 128) != (other_class.bytes()[i] & 128) ? 1 : 0;
  }
  EXPECT_EQ(same, a.bytes().size());
  EXPECT_GT(different, a.bytes().size() / 4);
  EXPECT_NE(synthetic("samples=20")->fingerprint(), synthetic("samples=20,seed=1")->fingerprint());
}

TEST(Synthetic, MistakesInThePathAreNamed) {
  const auto error_of = [](const std::string& text, int classes = 0) -> std::string {
    try {
      (void)synthetic(text, 0, classes);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("size=3"), HasSubstr("number of samples is missing"));
  EXPECT_THAT(error_of("samples=0"), HasSubstr("samples is '0'"));
  EXPECT_THAT(error_of("samples=9999999999"), HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of("samples=3,size=0"), HasSubstr("size is '0'"));
  EXPECT_THAT(error_of("samples=3,size=3x"), HasSubstr("size is ''"));
  EXPECT_THAT(error_of("samples=3,size=100000"), HasSubstr("too large"));
  EXPECT_THAT(error_of("samples=3,channels=2"), HasSubstr("channels are 1 or 3"));
  EXPECT_THAT(error_of("samples=3,colour=2"), HasSubstr("unknown name 'colour'"));
  EXPECT_THAT(error_of("1000"), HasSubstr("'1000' is not name=number"));
  EXPECT_THAT(error_of("samples=3,classes=5", 10), HasSubstr("but data.classes is 10"));
}

}  // namespace
}  // namespace temper
