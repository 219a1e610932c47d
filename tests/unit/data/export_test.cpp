// Data sets written in other formats, and what `datatool` says about it.

#include "temper/data/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/folder_names.h"
#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/data/open_dataset.h"
#include "temper/data/pack.h"
#include "temper/data/tool.h"
#include "unit/data/pack_files.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void expect_same_samples(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(std::ranges::equal(a.labels(), b.labels()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.load(i), b.load(i)) << i;
  }
}

class Export : public testing::Test {
 protected:
  Export() {
    for (unsigned i = 0; i < 6; ++i) {
      write_png(folder_ / concat("set/", i % 2 == 0 ? "cat/deep" : "dog", "/", 10 + i, ".png"),
                pattern_image(4, 5, 3, i));
    }
    source_ = open("set");
  }
  std::unique_ptr<Dataset> open(const std::string& name) {
    const std::string path = (folder_ / name).string();
    return open_dataset({guess_format(path), path, 0, 0});
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }
  ScratchFolder folder_;
  std::unique_ptr<Dataset> source_;
};

TEST_F(Export, APackBecomesTheFolderItCameFrom) {
  (void)pack_dataset(*source_, folder_ / "x.pack", {});
  EXPECT_EQ(write_folder(*open("x.pack"), folder_ / "out", 2), 6U);
  const auto copy = open("out");
  expect_same_samples(*copy, *source_);
  EXPECT_EQ(copy->fingerprint(), source_->fingerprint());
  EXPECT_EQ(read_file(folder_ / "out/dog/13.png"), read_file(folder_ / "set/dog/13.png"));
}

TEST_F(Export, ANpzFileHoldsTheSameImages) {
  (void)write_npz(*source_, folder_ / "x.npz", 2);
  const auto copy = open("x.npz");
  expect_same_samples(*copy, *source_);
  Buffer buffer;
  EXPECT_EQ(
      reinterpret_cast<std::uintptr_t>(std::get<ImageView>(copy->read(0, buffer)).bytes.data()) %
          64,
      0U);
  EXPECT_EQ(write_folder(*copy, folder_ / "out", 1), 6U);
  expect_same_samples(*open("out"), *source_);
  // Programs that stream an archive trust the header in front of a member: checksum and sizes.
  const std::string file = read_file(folder_ / "x.npz");
  const std::size_t entry = file.find("PK\1\2");
  const std::size_t extra = std::string("images.npy").size() + 4;
  EXPECT_EQ(number_at(file, 14, 4), number_at(file, entry + 16, 4));
  EXPECT_GT(number_at(file, 30 + extra), 6U * 60);
  EXPECT_EQ(number_at(file, 30 + extra), number_at(file, entry + 46 + extra));
}

TEST_F(Export, FloatsGoToNpzAndBack) {
  const std::vector<float> values = {0, 0.25F, 0.5F, 1, 0.1F, 0.2F, 0.3F, 0.4F};
  write_bytes(folder_ / "f.npz", zip({{"images.npy", npy("<f4", "(2, 2, 2)", raw_bytes(values))},
                                      {"labels.npy", npy("|u1", "(2,)", std::string("\1\0", 2))}}));
  const auto floats = open("f.npz");
  (void)pack_dataset(*floats, folder_ / "f.pack", {});
  (void)write_npz(*open("f.pack"), folder_ / "g.npz", 1);
  expect_same_samples(*open("g.npz"), *floats);
  EXPECT_THROW((void)write_folder(*floats, folder_ / "out", 1), ConfigError);
}

TEST_F(Export, RefusalsLeaveNothingBehind) {
  const std::size_t before = entries();
  write_png(folder_ / "set/dog/99.png", pattern_image(7, 5, 3));
  const auto mixed = open("set");
  try {
    (void)write_npz(*mixed, folder_ / "x.npz", 1);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("99.png: has 7 x 5 pixels"));
  }
  EXPECT_THROW((void)write_npz(*source_, folder_ / "set", 1), ConfigError);
  EXPECT_THROW((void)write_folder(*source_, folder_ / "set", 1), ConfigError);
  std::filesystem::remove(folder_ / "set/dog/13.png");
  EXPECT_THROW((void)write_folder(*source_, folder_ / "out", 2), DataError);
  EXPECT_EQ(entries(), before);
}

// A data set of two files whose names are given.
class NamedFiles final : public Dataset {
 public:
  explicit NamedFiles(std::vector<std::string> names) : names_(std::move(names)) {}
  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return classes_; }
  int channels() const override { return 3; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return 0; }
  std::string sample_name(std::size_t index) const override { return names_[index]; }
  std::string local_name(std::size_t index) const override { return names_[index]; }
  StoredSample read(std::size_t, Buffer&) const override { return EncodedImage{}; }
  SampleInfo describe(std::size_t) const override { return {"jpeg progressive"}; }

 private:
  std::vector<std::string> names_;
  std::vector<std::string> classes_ = {"cat", "dog"};
  std::vector<std::int64_t> labels_ = {0, 0, 1};
};

TEST(SampleFileNames, AreTheOwnOnesWhereThoseAreSafe) {
  EXPECT_THAT(sample_file_names(NamedFiles({"cat/1.jpg", "cat/a/0.png", "dog/1.jpg"})),
              ElementsAre("cat/1.jpg", "cat/a/0.png", "dog/1.jpg"));
  for (const char* name : {"cat/../../x.jpg", "../cat/1.jpg", "/cat/1.jpg", "dog/1.jpg",
                           "cat/.a.jpg", "cat/a", "1.jpg", "cat//1.jpg", "cat/2.jpg", ""}) {
    EXPECT_THAT(sample_file_names(NamedFiles({name, "cat/2.jpg", "dog/1.jpg"})),
                ElementsAre("cat/0.jpg", "cat/1.jpg", "dog/2.jpg"))
        << name;
  }
  EXPECT_THAT(sample_file_names(NamedFiles({"cat/1.jpg", "cat/2.jpg", "cat/3.jpg"})),
              ElementsAre("cat/0.jpg", "cat/1.jpg", "dog/2.jpg"));
  EXPECT_THAT(sample_file_names(NamedFiles({"cat/a/1.jpg", "cat/2.jpg", "dog/1.jpg"})),
              ElementsAre("cat/0.jpg", "cat/1.jpg", "dog/2.jpg"));
  EXPECT_THAT(
      sample_file_names(NamedFiles({std::string("cat/\0.jpg", 9), "cat/2.jpg", "dog/1.jpg"})),
      ElementsAre("cat/0.jpg", "cat/1.jpg", "dog/2.jpg"));
}

class Tool : public Export {
 protected:
  int run(ToolOptions options) {
    out_.str("");
    options.dataset.path = (folder_ / options.dataset.path).string();
    if (!options.output.empty()) {
      options.output = (folder_ / options.output).string();
    }
    return run_datatool(options, out_);
  }
  nlohmann::json json(ToolOptions options) {
    options.json = true;
    status_ = run(options);
    return nlohmann::json::parse(out_.str());
  }
  static ToolOptions options(const std::string& command, const std::string& path,
                             const std::string& output = "", const std::string& to = "") {
    ToolOptions options;
    options.command = command;
    options.dataset.path = path;
    options.output = output;
    options.to = to;
    return options;
  }
  std::ostringstream out_;
  int status_ = -1;
};

TEST_F(Tool, WritesEachFormat) {
  EXPECT_EQ(json(options("pack", "set", "x.pack"))["samples"], 6);
  EXPECT_EQ(json(options("convert", "x.pack", "x.npz", "npz"))["samples"], 6);
  EXPECT_EQ(json(options("convert", "x.npz", "copy", "folder"))["files"], 6);
  ToolOptions shards = options("convert", "copy", "shards", "pack");
  shards.shards = 2;
  shards.pixels = true;
  EXPECT_EQ(json(shards)["files"], 2);
  EXPECT_EQ(json(options("unpack", "shards", "back"))["files"], 6);
  expect_same_samples(*open("back"), *source_);
  EXPECT_EQ(json(options("index", "back"))["folders"], 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "back/.temper_index"));
  EXPECT_EQ(run(options("index", "back", "kept")), 0);
  EXPECT_THAT(out_.str(), HasSubstr("#index="));
  EXPECT_THROW(run(options("convert", "set", "y", "tar")), ConfigError);
}

TEST_F(Tool, VerifySaysWhereABadSampleBegins) {
  EXPECT_EQ(run(options("pack", "set", "x.pack")), 0);
  std::string file = read_file(folder_ / "x.pack");
  const std::uint64_t record = number_at(file, 56) + 4 + 2 * (4 + 3) + 2 * 48;
  const std::uint64_t begin = number_at(file, record);
  file[begin + 9] = static_cast<char>(file[begin + 9] ^ 1);
  write_bytes(folder_ / "x.pack", file);
  const auto report = json(options("verify", "x.pack"));
  EXPECT_EQ(status_, 1);
  ASSERT_EQ(report["bad"].size(), 1U);
  EXPECT_EQ(report["bad"][0]["offset"], begin);
  EXPECT_THAT(std::string(report["bad"][0]["name"]), testing::EndsWith("x.pack:cat/deep/14.png"));
  EXPECT_EQ(run(options("verify", "x.pack")), 1);
  EXPECT_THAT(out_.str(), HasSubstr(concat("(begins at byte ", begin, ")")));
  write_bytes(folder_ / "set/dog/11.png", "");
  EXPECT_TRUE(json(options("verify", "set"))["bad"][0]["offset"].is_null());
}

TEST_F(Tool, StatsCountsBytesAndDuplicates) {
  const std::string photo = read_file(folder_ / "set/dog/11.png");
  write_bytes(folder_ / "set/dog/20.png", photo);
  write_bytes(folder_ / "set/cat/20.png", photo);
  write_png(folder_ / "set/dog/21.png", pattern_image(4, 5, 3, 4));
  for (const char* path : {"set", "x.pack", "p.pack"}) {
    if (path[0] != 's') {
      ToolOptions pack = options("pack", "set", path);
      pack.pixels = path[0] == 'p';
      EXPECT_EQ(run(pack), 0);
    }
    const auto stats = json(options("stats", path));
    EXPECT_EQ(stats["duplicates"]["samples"], 3);
    EXPECT_EQ(stats["duplicates"]["in_another_class"], 3);
    ASSERT_EQ(stats["duplicates"]["groups"].size(), 2U);
    EXPECT_EQ(stats["duplicates"]["groups"][0].size(), 3U);
    EXPECT_THAT(std::string(stats["duplicates"]["groups"][0][0]), testing::EndsWith("cat/20.png"));
    EXPECT_THAT(std::string(stats["duplicates"]["groups"][1][1]), testing::EndsWith("dog/21.png"));
    if (path[0] == 'p') {
      EXPECT_EQ(stats["bytes"]["total"], 9 * 60);
    } else {
      EXPECT_EQ(stats["formats"]["png"], 9);
      EXPECT_GE(stats["bytes"]["max"], photo.size());
    }
  }
}

}  // namespace
}  // namespace temper
