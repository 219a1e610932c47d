#include <algorithm>
#include <filesystem>

#include "data/checksum.h"
#include "data/fingerprint.h"
#include "data/formats.h"
#include "data/input_file.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kPixels = 3 * kPlane;

struct CifarFile {
  std::string path;
  std::size_t first = 0;  // index of its first sample
};

class CifarDataset final : public Dataset {
 public:
  CifarDataset(const CifarLayout& layout, std::vector<std::string> paths,
               std::vector<std::string> class_names, int channels)
      : format_(layout.format),
        row_size_(static_cast<std::size_t>(layout.label_bytes) + kPixels),
        class_names_(std::move(class_names)),
        channels_(channels == 1 ? 1 : 3) {
    Fingerprint fingerprint;
    fingerprint.add(format_);
    for (const std::string& path : paths) {
      read(layout, path, fingerprint);
    }
    fingerprint_ = fingerprint.value();
  }

  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  int channels() const override { return channels_; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  std::string sample_name(std::size_t index) const override {
    const CifarFile& file = file_of(index);
    return concat(file.path, "[", index - file.first, "]");
  }

  std::uint64_t held_bytes() const override { return pixels_.size(); }

  std::string local_name(std::size_t index) const override {
    return std::filesystem::path(sample_name(index)).filename().string();
  }

  std::optional<std::uint64_t> offset(std::size_t index) const override {
    const CifarFile& file = file_of(index);
    return (index - file.first) * row_size_;
  }

  StoredSample read(std::size_t index, Buffer& buffer) const override {
    require(index < labels_.size(), "sample ", index, " of ", labels_.size());
    const std::span<std::uint8_t> pixels = buffer.take(kPixels);
    const std::uint8_t* planes = pixels_.data() + index * kPixels;
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        pixels[3 * i + c] = planes[c * kPlane + i];
      }
    }
    return ImageView{kSide, kSide, 3, ElementType::kUInt8, pixels};
  }

  SampleInfo describe(std::size_t) const override { return {format_}; }

 private:
  [[nodiscard]] const CifarFile& file_of(std::size_t index) const {
    const auto after = std::upper_bound(
        files_.begin(), files_.end(), index,
        [](std::size_t value, const CifarFile& file) { return value < file.first; });
    return *std::prev(after);
  }

  void read(const CifarLayout& layout, const std::string& path, Fingerprint& fingerprint) {
    const std::vector<std::uint8_t> data = read_regular_file(path);
    const std::size_t row = row_size_;
    if (data.empty() || data.size() % row != 0) {
      throw ConfigError(concat(path, ": ", data.size(), " bytes are no whole number of ",
                               layout.format, " rows of ", row, " bytes; fetch the file again"));
    }
    files_.push_back({path, labels_.size()});
    fingerprint.add(std::uint64_t{crc32_of(data)});
    const std::size_t before = labels_.size();
    for (std::size_t at = 0; at < data.size(); at += row) {
      const auto pixels = data.begin() + static_cast<std::ptrdiff_t>(at + row - kPixels);
      labels_.push_back(*(pixels - 1));
      pixels_.insert(pixels_.end(), pixels, pixels + kPixels);
    }
    (void)check_labels(std::span(labels_).subspan(before), layout.classes, path);
  }

  std::string format_;
  std::size_t row_size_;
  std::vector<std::string> class_names_;
  int channels_;
  std::vector<CifarFile> files_;
  std::vector<std::int64_t> labels_;
  std::vector<std::uint8_t> pixels_;  // planes of red, green and blue
  std::uint64_t fingerprint_ = 0;
};

std::vector<std::string> read_class_names(const CifarLayout& layout,
                                          const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / layout.names_file;
  if (!std::filesystem::is_regular_file(file)) {
    return numbered_classes(layout.classes);
  }
  const std::string text = read_file(file);
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    if (const std::string_view name = trim(line); !name.empty()) {
      names.emplace_back(name);
    }
  }
  if (names.size() != static_cast<std::size_t>(layout.classes)) {
    throw ConfigError(
        concat(file.string(), ": ", names.size(), " class names, expected ", layout.classes));
  }
  return names;
}

std::vector<std::string> chosen_files(const CifarLayout& layout, const SelectedPath& path,
                                      const std::filesystem::path& folder) {
  if (path.selector != "" && path.selector != "train" && path.selector != "test") {
    throw ConfigError(concat(path.path, "#", path.selector, ": ", layout.format,
                             " has the splits train and test"));
  }
  std::vector<std::string> files;
  const std::vector<std::string> names =
      path.selector == "test" ? std::vector<std::string>{layout.test_file} : layout.train_files;
  for (const std::string& name : names) {
    if (!std::filesystem::is_regular_file(folder / name)) {
      throw ConfigError(concat("data file ", (folder / name).string(), " of ", layout.format,
                               " is not there; unpack the binary version of the archive"));
    }
    files.push_back((folder / name).string());
  }
  return files;
}

}  // namespace

const CifarLayout& cifar10_layout() {
  static const CifarLayout layout{"cifar10",
                                  1,
                                  10,
                                  {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                   "data_batch_4.bin", "data_batch_5.bin"},
                                  "test_batch.bin",
                                  "batches.meta.txt",
                                  "cifar-10-batches-bin"};
  return layout;
}

const CifarLayout& cifar100_layout() {
  static const CifarLayout layout{
      "cifar100", 2, 100, {"train.bin"}, "test.bin", "fine_label_names.txt", "cifar-100-binary"};
  return layout;
}

std::unique_ptr<Dataset> open_cifar(const CifarLayout& layout, const DatasetOptions& options) {
  if (options.classes > 0 && options.classes != layout.classes) {
    throw ConfigError(concat(layout.format, " has ", layout.classes,
                             " classes, but data.classes is ", options.classes));
  }
  const SelectedPath path = split_selector(options.path);
  std::filesystem::path folder = path.path;
  std::vector<std::string> files;
  if (std::filesystem::is_regular_file(folder)) {
    files.push_back(path.path);
    folder = folder.parent_path();
  } else {
    if (std::filesystem::is_directory(folder / layout.archive_folder)) {
      folder /= layout.archive_folder;
    }
    files = chosen_files(layout, path, folder);
  }
  return std::make_unique<CifarDataset>(layout, std::move(files), read_class_names(layout, folder),
                                        options.channels);
}

}  // namespace temper
