// The .npz format of open_dataset, its zip reader, and the shipped digits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "data/formats.h"
#include "data/npy_array.h"
#include "data/zip_archive.h"
#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kLabels = npy("<i8", "(2,)", raw_bytes<std::int64_t>({1, 0}));

std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> values(count);
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  return values;
}

class Npz : public testing::Test {
 protected:
  std::unique_ptr<Dataset> open(const std::string& images, const std::string& labels = kLabels,
                                int channels = 0, int classes = 0) {
    return open_archive(zip({{"images.npy", images}, {"labels.npy", labels}}), "", channels,
                        classes);
  }
  std::unique_ptr<Dataset> open_archive(const std::string& archive,
                                        const std::string& selector = "", int channels = 0,
                                        int classes = 0) {
    const auto path = folder_ / "x.npz";
    write_bytes(path, archive);
    return open_dataset({"npz", path.string() + selector, channels, classes});
  }
  template <typename Error>
  std::string error_of(const std::string& images, const std::string& labels = kLabels,
                       int classes = 0) {
    try {
      (void)open(images, labels, 0, classes);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  ScratchFolder folder_;
};

TEST_F(Npz, LayoutsGiveTheSameImages) {
  const auto nhwc = open(npy("|u1", "(2, 4, 5, 3)", raw_bytes(counting(120))));
  std::vector<std::uint8_t> planes(120);
  std::vector<std::uint8_t> fortran(120);
  for (std::size_t i = 0; i < 120; ++i) {
    const std::size_t c = i % 3, x = i / 3 % 5, y = i / 15 % 4, n = i / 60;
    planes[((n * 3 + c) * 4 + y) * 5 + x] = static_cast<std::uint8_t>(i);
    fortran[((c * 5 + x) * 4 + y) * 2 + n] = static_cast<std::uint8_t>(i);
  }
  const Image expected = nhwc->load(1);
  EXPECT_EQ(expected.height, 4);
  EXPECT_EQ(expected.width, 5);
  EXPECT_EQ(expected.bytes()[0], 60);
  EXPECT_EQ(open(npy("|u1", "(2, 3, 4, 5)", raw_bytes(planes)))->load(1), expected);
  EXPECT_EQ(open(npy("|u1", "(2, 4, 5, 3)", raw_bytes(fortran), true))->load(1), expected);
}

// The 2 samples of LayoutsGiveTheSameImages, stored in three orders.
std::vector<std::string> layouts() {
  std::vector<std::uint8_t> planes(120);
  std::vector<std::uint8_t> fortran(120);
  for (std::size_t i = 0; i < 120; ++i) {
    const std::size_t c = i % 3, x = i / 3 % 5, y = i / 15 % 4, n = i / 60;
    planes[((n * 3 + c) * 4 + y) * 5 + x] = static_cast<std::uint8_t>(i);
    fortran[((c * 5 + x) * 4 + y) * 2 + n] = static_cast<std::uint8_t>(i);
  }
  return {npy("|u1", "(2, 4, 5, 3)", raw_bytes(counting(120))),
          npy("|u1", "(2, 3, 4, 5)", raw_bytes(planes)),
          npy("|u1", "(2, 4, 5, 3)", raw_bytes(fortran), true)};
}

TEST_F(Npz, ReadAndMappedFilesGiveTheSameImages) {
  const Image expected = open(layouts()[0])->load(1);
  const DatasetOptions options{"npz", (folder_ / "x.npz").string(), 0, 0};
  for (const std::string& images : layouts()) {
    const auto mapped = open(images);
    for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
      const auto read = open_npz(options, {.mapping = Mapping::kNever, .check_limit = limit});
      EXPECT_EQ(read->load(1), expected);
      EXPECT_EQ(read->fingerprint(), mapped->fingerprint());
      const bool fortran = images.find("'fortran_order': True") != std::string::npos;
      EXPECT_EQ(read->held_bytes() > 0, fortran);
    }
    EXPECT_EQ(mapped->held_bytes(), 0U);
  }
}

TEST_F(Npz, WithoutLabelsTheImagesAreEnough) {
  const std::string images = npy("|u1", "(2, 4, 5, 3)", raw_bytes(counting(120)));
  const std::string none = npy("<i8", "(2,)", raw_bytes<std::int64_t>({-1, -1}));
  const auto path = folder_ / "x.npz";
  const auto open_unlabelled = [&](const std::string& selector) {
    return open_dataset(
        {.format = "npz", .path = path.string() + selector, .channels = 0, .labelled = false});
  };
  write_bytes(path,
              zip({{"images.npy", images}, {"data.npy", images}, {"train_images.npy", images}}));
  for (const char* selector : {"", "#data", "#train"}) {
    const auto dataset = open_unlabelled(selector);
    EXPECT_THAT(dataset->labels(), ElementsAre(kNoLabel, kNoLabel));
    EXPECT_EQ(dataset->load(1).bytes()[0], 60);
  }
  EXPECT_THROW(static_cast<void>(open_unlabelled("#others")), ConfigError);
  write_bytes(path, zip({{"images.npy", images}, {"labels.npy", none}}));
  EXPECT_THAT(open_unlabelled("")->labels(), ElementsAre(kNoLabel, kNoLabel));
  EXPECT_THAT(error_of<ConfigError>(images, none), HasSubstr("label -1 is out of range"));
}

TEST_F(Npz, FloatsMayLieAnywhereInTheFile) {
  const std::vector<float> values = {0, 0.25F, 0.5F, 1, 0.1F, 0.2F, 0.3F, 0.4F};
  const std::string images = npy("<f4", "(2, 2, 2)", raw_bytes(values));
  const Image expected = open(images)->load(1);
  for (const char* first : {"a", "ab", "abc", "abcd"}) {
    const auto dataset =
        open_archive(zip({{"x", first}, {"images.npy", images}, {"labels.npy", kLabels}}));
    EXPECT_EQ(dataset->load(1), expected);
    Buffer buffer;
    const auto view = std::get<ImageView>(dataset->read(1, buffer));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.bytes.data()) % alignof(float), 0U);
  }
}

// More than the piece that is checked at a time.
TEST_F(Npz, LongArraysAreCheckedInPieces) {
  std::vector<std::uint8_t> pixels = counting(3 << 20);
  std::string file = zip(
      {{"images.npy", npy("|u1", "(2, 1024, 1536)", raw_bytes(pixels))}, {"labels.npy", kLabels}});
  const auto dataset = open_archive(file);
  EXPECT_EQ(dataset->load(1).bytes()[5], pixels[(3 << 19) + 5]);
  file[(2 << 20) + 7] = static_cast<char>(file[(2 << 20) + 7] ^ 1);
  EXPECT_THROW((void)open_archive(file), DataError);
}

TEST_F(Npz, SizesThatDeflateCannotReachAreRefusedBeforeTheyAreAllocated) {
  std::string file = zip({{"images.npy", "abcdefgh"}, {"labels.npy", kLabels}});
  const std::size_t entry = file.find("PK\1\2");
  for (const auto& [method, size] :
       {std::pair{std::size_t{8}, std::size_t{22}}, std::pair{entry + 10, entry + 24}}) {
    file[method] = 8;
    file.replace(size, 4, little_endian(0xfffffff0, 4));
  }
  try {
    (void)open_archive(file);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("claims a size that deflate cannot reach"));
  }
}

// As if they were larger than what is checked at the start.
TEST_F(Npz, LargeArraysAreCheckedWhenTheyAreRead) {
  const std::string images = npy("<f4", "(2, 1, 2)", raw_bytes<float>({0, 1, 0.5F, 2}));
  std::string archive = zip({{"images.npy", images}, {"labels.npy", kLabels}});
  const auto path = folder_ / "x.npz";
  const DatasetOptions options{"npz", path.string(), 0, 0};
  for (const Mapping mapping : {Mapping::kIfLocal, Mapping::kNever}) {
    write_bytes(path, archive);
    const auto dataset = open_npz(options, {.mapping = mapping, .check_limit = 0});
    EXPECT_NO_THROW((void)dataset->load(0));
    EXPECT_THROW((void)dataset->load(1), DataError);
    EXPECT_THROW(dataset->check_storage(), ConfigError);
    EXPECT_THROW((void)open_npz(options, {.mapping = mapping}), ConfigError);
    const std::size_t pixel = *dataset->offset(1);
    EXPECT_EQ(archive.substr(pixel, 8), raw_bytes<float>({0.5F, 2}));
    std::string damaged = archive;
    damaged.replace(pixel, 8, raw_bytes<float>({0.5F, 0.5F}));
    write_bytes(path, damaged);
    const auto other = open_npz(options, {.mapping = mapping, .check_limit = 0});
    EXPECT_NO_THROW((void)other->load(1));
    EXPECT_THROW(other->check_storage(), DataError);
    EXPECT_THROW((void)open_npz(options, {.mapping = mapping}), DataError);
  }
}

TEST_F(Npz, GrayIsRepeatedAndColourBecomesLuma) {
  const std::string gray = npy("|u1", "(2, 2, 2)", raw_bytes(counting(8)));
  EXPECT_THAT(open(gray)->load(1).bytes(), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(open(gray, kLabels, 3)->channels(), 3);
  EXPECT_THAT(open(gray, kLabels, 3)->load(0).bytes(),
              ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3));
  const std::string red = npy("|u1", "(2, 2, 1, 3)",
                              raw_bytes<std::uint8_t>({255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}));
  EXPECT_THAT(open(red, kLabels, 1)->load(0).bytes(), ElementsAre(76, 150));
  EXPECT_THAT(open(red, kLabels, 1)->load(1).bytes(), ElementsAre(29, 9));
}

TEST_F(Npz, FloatsStayFloats) {
  const std::vector<float> values = {0, 0.25F, 0.5F, 1, 0.1F, 0.2F, 0.3F, 0.4F};
  const auto single = open(npy("<f4", "(2, 2, 2)", raw_bytes(values)));
  EXPECT_EQ(single->element_type(), ElementType::kFloat32);
  EXPECT_THAT(single->load(1).floats(), ElementsAre(0.1F, 0.2F, 0.3F, 0.4F));
  const std::vector<double> wide(values.begin(), values.end());
  EXPECT_EQ(open(npy("<f8", "(2, 2, 2)", raw_bytes(wide)))->load(1), single->load(1));
}

TEST_F(Npz, FloatsOutOfRangeNameTheSample) {
  const auto with = [&](float value) {
    return error_of<ConfigError>(npy("<f4", "(2, 1, 2)", raw_bytes<float>({0, 1, 0.5F, value})));
  };
  EXPECT_THAT(with(1.5F), HasSubstr("images[1]: pixel value 1.5 is out of range"));
  EXPECT_THAT(with(-0.5F), HasSubstr("out of range"));
  EXPECT_THAT(with(std::nanf("")), HasSubstr("images[1]: a pixel is not finite"));
}

TEST_F(Npz, LabelsOfEveryIntegerType) {
  const std::string images = npy("|u1", "(2, 1, 2)", raw_bytes(counting(4)));
  const auto labels = [&](const char* dtype, const std::string& data) {
    const auto dataset = open(images, npy(dtype, "(2,)", data));
    return std::vector(dataset->labels().begin(), dataset->labels().end());
  };
  EXPECT_THAT(labels("|i1", raw_bytes<std::int8_t>({3, 1})), ElementsAre(3, 1));
  EXPECT_THAT(labels("|u1", raw_bytes<std::uint8_t>({200, 1})), ElementsAre(200, 1));
  EXPECT_THAT(labels("<i2", raw_bytes<std::int16_t>({3, 1})), ElementsAre(3, 1));
  EXPECT_THAT(labels("<u2", raw_bytes<std::uint16_t>({3, 1})), ElementsAre(3, 1));
  EXPECT_THAT(labels("<i4", raw_bytes<std::int32_t>({3, 1})), ElementsAre(3, 1));
  EXPECT_THAT(labels("<u8", raw_bytes<std::uint64_t>({3, 1})), ElementsAre(3, 1));
  const auto column = open(images, npy("<i8", "(2, 1)", raw_bytes<std::int64_t>({1, 0})));
  EXPECT_THAT(column->labels(), ElementsAre(1, 0));
  EXPECT_EQ(column->class_names().size(), 2U);
}

TEST_F(Npz, LabelOutOfRangeNamesTheSample) {
  const std::string images = npy("|u1", "(2, 1, 2)", raw_bytes(counting(4)));
  const auto with = [&](std::int64_t label) {
    return error_of<ConfigError>(images, npy("<i8", "(2,)", raw_bytes<std::int64_t>({0, label})),
                                 5);
  };
  EXPECT_THAT(with(5), HasSubstr("labels[1]: label 5 is out of range, expected 0 to 4"));
  EXPECT_THAT(with(-1), HasSubstr("labels[1]: label -1 is out of range"));
  EXPECT_EQ(with(4), "no error");
}

TEST_F(Npz, UnusableArraysAreConfigurationErrors) {
  const std::string four = raw_bytes(counting(4));
  EXPECT_THAT(error_of<ConfigError>(npy("|u1", "(2, 2)", four)), HasSubstr("shape (2, 2)"));
  EXPECT_THAT(error_of<ConfigError>(npy("|u1", "(1, 2, 2)", four)), HasSubstr("lengths differ"));
  EXPECT_THAT(error_of<ConfigError>(npy("|i1", "(2, 1, 2)", four)), HasSubstr("dtype |i1"));
  EXPECT_THAT(error_of<ConfigError>(npy("|u1", "(2, 3, 1, 3)", raw_bytes(counting(18)))),
              HasSubstr("ambiguous layout"));
  EXPECT_THAT(error_of<ConfigError>(npy("|u1", "(2, 1, 2)", four),
                                    npy("<f4", "(2,)", raw_bytes<float>({0, 1}))),
              HasSubstr("labels have dtype <f4"));
}

TEST_F(Npz, DamagedArraysAreDataErrors) {
  const std::string four = raw_bytes(counting(4));
  EXPECT_THAT(error_of<DataError>(npy("|O", "(2, 1, 2)", four)), HasSubstr("pickle"));
  EXPECT_THAT(error_of<DataError>(npy("|u1", "(2, 1, 3)", four)), HasSubstr("does not fit"));
  EXPECT_THAT(error_of<DataError>(npy("|u1", "(4294967296, 4294967296, 4)", four)),
              HasSubstr("does not fit"));
  EXPECT_THAT(error_of<DataError>(npy("|u1", "(2*1, 1, 2)", four)), HasSubstr("malformed"));
  EXPECT_THAT(error_of<DataError>("no array"), HasSubstr("no .npy array"));
}

TEST_F(Npz, SelectorChoosesArrays) {
  const auto images = [](std::uint8_t first) {
    return npy("|u1", "(2, 1, 2)", raw_bytes<std::uint8_t>({first, 1, 2, 3}));
  };
  const std::string archive = zip({{"train_images.npy", images(10)},
                                   {"train_labels.npy", kLabels},
                                   {"x_test.npy", images(20)},
                                   {"y_test.npy", kLabels}});
  EXPECT_EQ(open_archive(archive, "#train")->load(0).bytes()[0], 10);
  EXPECT_EQ(open_archive(archive, "#test")->load(0).bytes()[0], 20);
  EXPECT_EQ(open_archive(archive, "#x_test,train_labels")->load(0).bytes()[0], 20);
  EXPECT_THAT(open_archive(archive, "#train")->sample_name(1),
              testing::EndsWith("x.npz:train_images[1]"));
  try {
    (void)open_archive(archive);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the file holds train_images, train_labels, x_test"));
  }
}

TEST_F(Npz, EveryByteOfAnArchiveIsChecked) {
  const std::string images = npy("|u1", "(2, 1, 2)", raw_bytes(counting(4)));
  const std::string good = zip({{"images.npy", images}, {"labels.npy", kLabels}});
  const Image expected = open_archive(good)->load(1);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    try {
      // Bytes without meaning here, such as a member's date, may change.
      EXPECT_EQ(open_archive(bad)->load(1), expected) << "byte " << i;
    } catch (const DataError&) {
      ++refused;
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GE(refused, images.size() + kLabels.size());
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW((void)open_archive(good.substr(0, size)), DataError) << size << " bytes";
  }
}

TEST_F(Npz, FingerprintTellsContentAndLabels) {
  const auto fingerprint = [&](const std::vector<std::uint8_t>& pixels, std::int64_t label) {
    return open(npy("|u1", "(2, 1, 2)", raw_bytes(pixels)),
                npy("<i8", "(2,)", raw_bytes<std::int64_t>({label, 1})))
        ->fingerprint();
  };
  EXPECT_EQ(fingerprint({1, 2, 3, 4}, 0), fingerprint({1, 2, 3, 4}, 0));
  EXPECT_NE(fingerprint({1, 2, 3, 4}, 0), fingerprint({1, 2, 3, 5}, 0));
  EXPECT_NE(fingerprint({1, 2, 3, 4}, 0), fingerprint({1, 2, 3, 4}, 1));
}

const std::string kSource = TEMPER_SOURCE_DIR;

TEST(Digits, SplitsHaveTheirSizesAndAllClasses) {
  for (const auto& [split, size] :
       {std::pair{"train", 1257U}, std::pair{"validation", 180U}, std::pair{"test", 360U}}) {
    const auto dataset = open_dataset({"npz", concat(kSource, "/data/digits.npz#", split), 1, 10});
    EXPECT_EQ(dataset->size(), size);
    EXPECT_EQ(dataset->load(0).height, 8);
    EXPECT_EQ(std::set<std::int64_t>(dataset->labels().begin(), dataset->labels().end()).size(),
              10U);
  }
}

// digits.npz is deflated, the reference stored.
TEST(Digits, TestSplitIsTheReference) {
  const auto dataset = open_dataset({"npz", kSource + "/data/digits.npz#test", 1, 10});
  const ZipArchive archive(kSource + "/tests/golden/part_b/digits_test.npz");
  const NpyArray levels = parse_npy(archive.read("levels.npy"), "levels");
  const NpyArray labels = parse_npy(archive.read("labels.npy"), "labels");
  ASSERT_THAT(levels.shape, ElementsAre(360, 1, 8, 8));
  for (std::size_t i = 0; i < 360; ++i) {
    EXPECT_EQ(dataset->labels()[i], labels.data()[8 * i]);
    const Image image = dataset->load(i);
    for (std::size_t p = 0; p < 64; ++p) {
      ASSERT_EQ(image.bytes()[p], std::lround(255.0 * levels.data()[64 * i + p] / 16));
    }
  }
}

}  // namespace
}  // namespace temper
