// The folder and cifar formats of open_dataset, and what it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string config_error(const DatasetOptions& options) {
  try {
    (void)open_dataset(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

class Folder : public testing::Test {
 protected:
  void add(const std::string& name, unsigned seed = 0) {
    write_png(folder_ / name, pattern_image(3, 4, 3, seed));
  }
  [[nodiscard]] DatasetOptions options(int classes = 0) const {
    return {.path = folder_.path().string(), .classes = classes};
  }
  // Names relative to the root.
  [[nodiscard]] std::vector<std::string> names() const {
    const auto dataset = open_dataset(options());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < dataset->size(); ++i) {
      names.push_back(dataset->sample_name(i).substr(folder_.path().string().size() + 1));
    }
    return names;
  }
  ScratchFolder folder_;
};

TEST_F(Folder, ClassesAndFilesAreSortedByBytes) {
  for (const char* name : {"b/2.png", "b/10.png", "B/x.png", "10/a.png", "9/a.PNG"}) {
    add(name);
  }
  const auto dataset = open_dataset(options());
  EXPECT_THAT(dataset->class_names(), ElementsAre("10", "9", "B", "b"));
  EXPECT_THAT(dataset->labels(), ElementsAre(0, 1, 2, 3, 3));
  EXPECT_THAT(names(), ElementsAre("10/a.png", "9/a.PNG", "B/x.png", "b/10.png", "b/2.png"));
}

TEST_F(Folder, NestedFoldersFollowTheirWholePath) {
  for (const char* name : {"k/z.png", "k/a/x.png", "k/a-b/x.png", "k/a/b/x.png"}) {
    add(name);
  }
  EXPECT_THAT(names(), ElementsAre("k/z.png", "k/a/x.png", "k/a-b/x.png", "k/a/b/x.png"));
}

TEST_F(Folder, OtherFilesAndDotNamesAreNoSamples) {
  for (const char* name : {"k/a.png", "k/.b.png", ".hidden/c.png", "k/.cache/d.png"}) {
    add(name);
  }
  write_bytes(folder_ / "k/readme.txt", "x");
  write_bytes(folder_ / "loose.png", "x");
  EXPECT_THAT(names(), ElementsAre("k/a.png"));
}

TEST_F(Folder, WithoutLabelsFilesMayLieAnywhere) {
  DatasetOptions unlabelled = options();
  unlabelled.labelled = false;
  EXPECT_THAT(config_error(unlabelled), HasSubstr("holds no image file"));
  for (const char* name : {"b.png", "a/x.png", "a/deep/y.png", ".z.png"}) {
    add(name);
  }
  const auto dataset = open_dataset(unlabelled);
  EXPECT_THAT(dataset->labels(), ElementsAre(kNoLabel, kNoLabel, kNoLabel));
  EXPECT_TRUE(dataset->class_names().empty());
  EXPECT_EQ(dataset->local_name(0), "b.png");
  EXPECT_EQ(dataset->local_name(1), "a/x.png");
  EXPECT_EQ(dataset->local_name(2), "a/deep/y.png");
  EXPECT_EQ(dataset->load(2).width, 4);
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "a/up");
  EXPECT_THAT(config_error(unlabelled), HasSubstr("leads back to a folder above it"));
}

TEST_F(Folder, PixelsComeFromTheFileWhateverItsSuffix) {
  add("k/really_png.jpg", 5);
  const auto dataset = open_dataset(options());
  EXPECT_EQ(dataset->load(0), pattern_image(3, 4, 3, 5));
  EXPECT_EQ(dataset->describe(0).format, "png");
}

TEST_F(Folder, UnusableFoldersAreConfigurationErrors) {
  EXPECT_THAT(config_error({.path = "/nonexistent/photos"}),
              HasSubstr("/nonexistent/photos: No such file or directory"));
  EXPECT_THAT(config_error(options()), HasSubstr("no class folder"));
  add("cat/1.png");
  std::filesystem::create_directories(folder_ / "dog");
  EXPECT_THAT(config_error(options()), HasSubstr("no image files in class folder dog"));
  add("dog/1.png");
  EXPECT_THAT(config_error(options(3)), HasSubstr("2 class folders, but data.classes is 3"));
  EXPECT_EQ(config_error(options(2)), "no error");
}

TEST_F(Folder, LinkThatLeadsUpIsNamed) {
  add("cat/1.png");
  std::filesystem::create_directory_symlink("..", folder_ / "cat/again");
  EXPECT_THAT(config_error(options()), HasSubstr("cat/again leads back"));
}

TEST_F(Folder, LinkedFoldersCount) {
  add("cat/1.png");
  std::filesystem::create_directory_symlink("cat", folder_ / "kitten");
  EXPECT_THAT(names(), ElementsAre("cat/1.png", "kitten/1.png"));
}

std::string load_error(const Dataset& dataset, std::size_t index) {
  try {
    (void)dataset.load(index);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Folder, BadFilesAreNamedWithTheReason) {
  add("k/1.png");
  write_bytes(folder_ / "k/2.png", "");
  write_bytes(folder_ / "k/3.jpg", "hello");
  write_bytes(folder_ / "k/4.jpg", "GIF89a");
  ASSERT_EQ(::mkfifo((folder_ / "k/5.jpg").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere", folder_ / "k/6.jpg");
  const auto dataset = open_dataset(options());
  ASSERT_EQ(dataset->size(), 6U);
  EXPECT_EQ(load_error(*dataset, 0), "no error");
  EXPECT_THAT(load_error(*dataset, 1), HasSubstr("k/2.png: empty"));
  EXPECT_THAT(load_error(*dataset, 2), HasSubstr("k/3.jpg: not an image"));
  EXPECT_THAT(load_error(*dataset, 3), HasSubstr("k/4.jpg: unsupported format GIF"));
  EXPECT_THAT(load_error(*dataset, 4), HasSubstr("k/5.jpg: is not a regular file"));
  EXPECT_THAT(load_error(*dataset, 5), HasSubstr("k/6.jpg: cannot be opened: No such file"));
}

TEST_F(Folder, EveryCutOfAFileIsRefused) {
  add("k/1.png");
  const auto dataset = open_dataset(options());
  const auto size = std::filesystem::file_size(folder_ / "k/1.png");
  for (std::uintmax_t length = size; length-- > 0;) {
    std::filesystem::resize_file(folder_ / "k/1.png", length);
    EXPECT_THAT(load_error(*dataset, 0), HasSubstr("k/1.png: ")) << length << " bytes";
  }
}

TEST_F(Folder, FingerprintTellsNamesAndSizesNotThePlace) {
  add("a/1.png");
  add("b/1.png");
  const std::uint64_t before = open_dataset(options())->fingerprint();
  ScratchFolder other;
  std::filesystem::copy(folder_.path(), other / "copy", std::filesystem::copy_options::recursive);
  EXPECT_EQ(open_dataset({.path = (other / "copy").string()})->fingerprint(), before);
  write_png(folder_ / "b/1.png", pattern_image(9, 9, 3));
  EXPECT_NE(open_dataset(options())->fingerprint(), before);
  add("b/1.png");
  EXPECT_EQ(open_dataset(options())->fingerprint(), before);
  std::filesystem::rename(folder_ / "b/1.png", folder_ / "b/2.png");
  EXPECT_NE(open_dataset(options())->fingerprint(), before);
}

std::string cifar_rows(const std::vector<std::string>& labels, char pixel) {
  std::string rows;
  for (const std::string& label : labels) {
    rows += label + std::string(1024, pixel) + std::string(1024, '\1') + std::string(1024, '\2');
  }
  return rows;
}

TEST(Cifar, ReadsTrainingFilesInOrderAndTheTestFile) {
  const ScratchFolder folder;
  for (int i = 1; i <= 5; ++i) {
    write_bytes(folder / concat("data_batch_", i, ".bin"),
                cifar_rows({std::string(1, static_cast<char>(i)), "\7"}, static_cast<char>(i)));
  }
  write_bytes(folder / "test_batch.bin", cifar_rows({"\3"}, '\x30'));
  const std::string path = folder.path().string();
  EXPECT_EQ(guess_format(path), "cifar10");
  const auto train = open_dataset({"cifar10", path, 3, 10});
  EXPECT_THAT(train->labels(), ElementsAre(1, 7, 2, 7, 3, 7, 4, 7, 5, 7));
  const Image image = train->load(4);
  EXPECT_EQ(image.height, 32);
  EXPECT_THAT(std::vector(image.bytes().begin(), image.bytes().begin() + 6),
              ElementsAre(3, 1, 2, 3, 1, 2));
  EXPECT_THAT(train->sample_name(5), testing::EndsWith("data_batch_3.bin[1]"));
  const auto test = open_dataset({"cifar10", path + "#test", 1, 0});
  EXPECT_THAT(test->labels(), ElementsAre(3));
  EXPECT_EQ(test->class_names().size(), 10U);
  EXPECT_EQ(test->load(0).channels, 1);
}

TEST(Cifar, FineLabelsAndNamesOfCifar100) {
  const ScratchFolder folder;
  write_bytes(folder / "train.bin", cifar_rows({"\1\x63"}, '\0'));
  std::string names;
  for (int i = 0; i < 100; ++i) {
    names += concat("class", i, "\n");
  }
  write_bytes(folder / "fine_label_names.txt", names);
  const auto dataset = open_dataset({"cifar100", folder.path().string(), 3, 100});
  EXPECT_THAT(dataset->labels(), ElementsAre(99));
  EXPECT_EQ(dataset->class_names()[99], "class99");
}

TEST(Cifar, UnusableFilesAreConfigurationErrors) {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  EXPECT_THAT(config_error({"cifar10", path, 3, 0}), HasSubstr("data_batch_1.bin"));
  EXPECT_THAT(config_error({"cifar10", path, 3, 7}), HasSubstr("10 classes"));
  write_bytes(folder / "one.bin", "short");
  EXPECT_THAT(config_error({"cifar10", path + "/one.bin", 3, 0}), HasSubstr("no whole number"));
  write_bytes(folder / "one.bin", cifar_rows({"\1", "\x0a"}, '\0'));
  EXPECT_THAT(config_error({"cifar10", path + "/one.bin", 3, 0}),
              HasSubstr("one.bin[1]: label 10 is out of range"));
}

TEST(OpenDataset, UnknownFormatsAndMissingFilesAreRefused) {
  EXPECT_THAT(config_error({"foldr", "x", 3, 0}), HasSubstr("did you mean 'folder'?"));
  EXPECT_THAT(config_error({"npz", "/nonexistent/x.npz#train", 3, 0}),
              HasSubstr("/nonexistent/x.npz is not there"));
  EXPECT_THAT(config_error({"folder", "", 3, 0}), HasSubstr("empty"));
  EXPECT_THAT(config_error({"folder", "x", 2, 0}), HasSubstr("data.channels is 2"));
}

}  // namespace
}  // namespace temper
