#include "temper/data/open_dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "data/formats.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::int64_t kMaxClasses = 1'000'000;

struct Format {
  const char* name;
  std::unique_ptr<Dataset> (*open)(const DatasetOptions&);
};

constexpr std::array<Format, 7> kFormats = {{
    {"folder", open_folder},
    {"pack", open_pack},
    {"npz", [](const auto& options) { return open_npz(options); }},
    {"cifar10", [](const auto& options) { return open_cifar(cifar10_layout(), options); }},
    {"cifar100", [](const auto& options) { return open_cifar(cifar100_layout(), options); }},
    {"mnist", open_mnist},
    {"synthetic", open_synthetic},
}};

}  // namespace

SelectedPath split_selector(const std::string& text) {
  std::error_code ignored;
  const std::size_t mark = text.rfind('#');
  if (mark == std::string::npos || std::filesystem::exists(text, ignored)) {
    return {text, ""};
  }
  return {text.substr(0, mark), text.substr(mark + 1)};
}

std::int64_t check_labels(std::span<const std::int64_t> labels, std::int64_t classes,
                          const std::string& array_name) {
  const std::int64_t limit = classes > 0 ? classes : kMaxClasses;
  std::int64_t largest = -1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= limit) {
      throw ConfigError(concat(array_name, "[", i, "]: label ", labels[i],
                               " is out of range, expected 0 to ", limit - 1,
                               "; correct data.classes or the labels"));
    }
    largest = std::max(largest, labels[i]);
  }
  return classes > 0 ? classes : largest + 1;
}

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) {
    names.push_back(std::to_string(i));
  }
  return names;
}

std::string guess_format(const std::string& path) {
  const std::filesystem::path plain = split_selector(path).path;
  if (plain.extension() == ".npz") {
    return "npz";
  }
  if (path.starts_with("samples=")) {
    return "synthetic";
  }
  if (looks_like_pack(plain)) {
    return "pack";
  }
  if (looks_like_mnist(plain)) {
    return "mnist";
  }
  for (const CifarLayout* layout : {&cifar10_layout(), &cifar100_layout()}) {
    for (const auto& folder : {plain, plain / layout->archive_folder}) {
      if (std::filesystem::is_regular_file(folder / layout->test_file) ||
          std::filesystem::is_regular_file(folder / layout->train_files.front())) {
        return layout->format;
      }
    }
  }
  return "folder";
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  if (options.path.empty()) {
    throw ConfigError("the path of the data set is empty");
  }
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    throw ConfigError(concat("data.channels is ", options.channels, ", expected 1 (gray) or 3"));
  }
  if (options.classes < 0 || options.classes > kMaxClasses) {
    throw ConfigError(concat("data.classes is ", options.classes, ", expected 0 to ", kMaxClasses));
  }
  for (const Format& format : kFormats) {
    if (options.format == format.name) {
      return format.open(options);
    }
  }
  std::vector<std::string> known;
  for (const Format& format : kFormats) {
    known.emplace_back(format.name);
  }
  const std::string suggestion = closest_match(options.format, known);
  throw ConfigError(concat("unknown data format '", options.format, "'; ",
                           suggestion.empty() ? concat("known: ", join(known, ", "))
                                              : concat("did you mean '", suggestion, "'?")));
}

}  // namespace temper
