#pragma once
// The formats behind open_dataset. `channels` is 0, 1 or 3 and `classes` not negative, as
// open_dataset has checked.

#include <filesystem>
#include <memory>
#include <string>

#include "data/data_file.h"
#include "temper/data/dataset.h"
#include "temper/data/open_dataset.h"

namespace temper {

// "path#selector"; a path that exists as a whole has no selector.
struct SelectedPath {
  std::string path;
  std::string selector;
};
[[nodiscard]] SelectedPath split_selector(const std::string& text);

// Throws ConfigError that names the first sample whose label is not in 0 ... classes - 1. With
// classes 0 returns the number of classes the labels need, otherwise `classes`.
[[nodiscard]] std::int64_t check_labels(std::span<const std::int64_t> labels, std::int64_t classes,
                                        const std::string& array_name);

// "0", "1", ...
[[nodiscard]] std::vector<std::string> numbered_classes(std::int64_t count);

[[nodiscard]] std::unique_ptr<Dataset> open_folder(const DatasetOptions& options);
struct NpzAccess {
  Mapping mapping = Mapping::kIfLocal;
  // Larger arrays in the archive are not read as a whole at every start: floats are then checked
  // when a sample is read, the checksum by check_storage().
  std::uint64_t check_limit = std::uint64_t{4} << 30;
};
[[nodiscard]] std::unique_ptr<Dataset> open_npz(const DatasetOptions& options,
                                                const NpzAccess& access = {});

[[nodiscard]] std::unique_ptr<Dataset> open_pack(const DatasetOptions& options);
[[nodiscard]] bool looks_like_pack(const std::filesystem::path& path);
[[nodiscard]] std::unique_ptr<Dataset> open_mnist(const DatasetOptions& options);
[[nodiscard]] bool looks_like_mnist(const std::filesystem::path& path);
[[nodiscard]] std::unique_ptr<Dataset> open_synthetic(const DatasetOptions& options);

struct CifarLayout {
  const char* format;
  int label_bytes;  // the last of them is the label
  int classes;
  std::vector<std::string> train_files;
  std::string test_file;
  std::string names_file;
  std::string archive_folder;  // what the published archive unpacks to
};
[[nodiscard]] const CifarLayout& cifar10_layout();
[[nodiscard]] const CifarLayout& cifar100_layout();
[[nodiscard]] std::unique_ptr<Dataset> open_cifar(const CifarLayout& layout,
                                                  const DatasetOptions& options);

}  // namespace temper
