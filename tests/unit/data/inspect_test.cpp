// What datatool prints, and the folders that it writes.

#include "temper/data/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/formats.h"
#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "temper/data/unpack.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Inspect : public testing::Test {
 protected:
  Inspect() {
    for (unsigned i = 0; i < 600; ++i) {
      write_png(folder_ / concat("set/", i % 2 == 0 ? "cat" : "dog", "/", 1000 + i, ".png"),
                pattern_image(3 + static_cast<int>(i % 2), 5, 3, i));
    }
  }
  std::unique_ptr<Dataset> open() { return open_dataset({.path = (folder_ / "set").string()}); }
  ScratchFolder folder_;
};

TEST_F(Inspect, VerifyListsBadFilesInOrder) {
  EXPECT_TRUE(verify_dataset(*open(), 3).bad.empty());
  write_bytes(folder_ / "set/dog/1599.png", "");
  write_bytes(folder_ / "set/cat/1000.png", "hello");
  const VerifyReport report = verify_dataset(*open(), 3);
  EXPECT_EQ(report.samples, 600U);
  ASSERT_EQ(report.bad.size(), 2U);
  EXPECT_THAT(report.bad[0].name, testing::EndsWith("cat/1000.png"));
  EXPECT_THAT(report.bad[0].reason, testing::StartsWith("not an image"));
  EXPECT_EQ(report.bad[1].reason, "empty file");
  EXPECT_THAT(to_text(report), HasSubstr("600 samples, 2 bad"));
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["bad"][1]["reason"], "empty file");
}

// The array is read as if it were larger than what opening checks.
TEST(Verify, ReadsTheStorageAsAWholeToo) {
  const ScratchFolder folder;
  std::string file = zip({{"images.npy", npy("|u1", "(1, 1, 2)", "ab")},
                          {"labels.npy", npy("|u1", "(1,)", std::string(1, '\0'))}});
  const auto report_of = [&] {
    write_bytes(folder / "x.npz", file);
    const auto dataset = open_npz({"npz", (folder / "x.npz").string(), 0, 0}, {.check_limit = 0});
    return verify_dataset(*dataset, 1);
  };
  EXPECT_TRUE(report_of().bad.empty());
  file.replace(file.find("ab"), 2, "aB");
  const VerifyReport report = report_of();
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_THAT(report.bad[0].reason, HasSubstr("wrong checksum"));
}

TEST_F(Inspect, StatisticsDescribeTheData) {
  write_bytes(folder_ / "set/dog/bad.png", "");
  const DatasetStatistics one = describe_dataset(*open(), 1);
  EXPECT_EQ(one.samples, 601U);
  EXPECT_THAT(one.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(one.class_counts, ElementsAre(300U, 301U));
  EXPECT_EQ(one.height_min, 3);
  EXPECT_EQ(one.height_max, 4);
  EXPECT_EQ(one.width_min, 5);
  EXPECT_EQ(one.formats.at("png"), 600U);
  EXPECT_EQ(one.bad.size(), 1U);
  const DatasetStatistics four = describe_dataset(*open(), 4);
  EXPECT_EQ(to_json(four), to_json(one));
  EXPECT_EQ(nlohmann::json::parse(to_json(one))["classes"][1]["samples"], 301);
}

TEST(Statistics, MeanAndDeviationAreThoseOfThePixels) {
  const ScratchFolder folder;
  write_png(folder / "a/1.png", Image{1, 2, 1, std::vector<std::uint8_t>{0, 255}});
  write_png(folder / "a/2.png", Image{1, 2, 1, std::vector<std::uint8_t>{255, 255}});
  const auto dataset = open_dataset({"folder", folder.path().string(), 1, 0});
  const DatasetStatistics statistics = describe_dataset(*dataset, 1);
  ASSERT_EQ(statistics.mean.size(), 1U);
  EXPECT_DOUBLE_EQ(statistics.mean[0], 0.75);
  EXPECT_NEAR(statistics.standard_deviation[0], std::sqrt(0.1875), 1e-12);
}

// An archive of `classes` classes with one gray image each, in falling order of labels.
std::string archive(std::uint8_t classes) {
  std::vector<std::uint8_t> labels;
  for (std::uint8_t i = classes; i-- > 0;) {
    labels.push_back(i);
  }
  const std::string count = std::to_string(classes);
  return zip({{"images.npy", npy("|u1", "(" + count + ", 1, 1)", raw_bytes(labels))},
              {"labels.npy", npy("|u1", "(" + count + ",)", raw_bytes(labels))}});
}

TEST(Unpack, FolderHoldsTheSameImagesWithTheSameLabels) {
  const ScratchFolder folder;
  write_bytes(folder / "x.npz", archive(12));
  const auto dataset = open_dataset({"npz", (folder / "x.npz").string(), 0, 0});
  EXPECT_EQ(unpack_dataset(*dataset, folder / "out"), 12U);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/03/08.png"));
  const auto copy = open_dataset({"folder", (folder / "out").string(), 1, 12});
  ASSERT_EQ(copy->size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(copy->labels()[i], static_cast<std::int64_t>(i));
    EXPECT_EQ(copy->load(i).bytes()[0], i);
  }
}

TEST(Unpack, RefusalsLeaveNothingBehind) {
  const ScratchFolder folder;
  write_bytes(folder / "x.npz", archive(2));
  const std::string path = (folder / "x.npz").string();
  const auto dataset = open_dataset({"npz", path, 0, 0});
  std::filesystem::create_directories(folder / "there");
  EXPECT_THROW(unpack_dataset(*dataset, folder / "there"), ConfigError);
  const auto sparse = open_dataset({"npz", path, 0, 3});
  EXPECT_THROW(unpack_dataset(*sparse, folder / "out"), ConfigError);
  write_bytes(folder / "f.npz",
              zip({{"images.npy", npy("<f4", "(1, 1, 1)", raw_bytes<float>({0.5F}))},
                   {"labels.npy", npy("|u1", "(1,)", std::string(1, '\0'))}}));
  const auto floats = open_dataset({"npz", (folder / "f.npz").string(), 0, 0});
  EXPECT_THROW(unpack_dataset(*floats, folder / "out"), ConfigError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
}

}  // namespace
}  // namespace temper
