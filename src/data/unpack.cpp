#include "temper/data/unpack.h"

#include <png.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/text.h"

namespace temper {
namespace {

std::string padded(std::size_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && !name.starts_with('.');
}

// Class names where their byte order is the order of labels, with the label in front otherwise.
std::vector<std::string> class_folders(std::span<const std::string> names) {
  const std::size_t width = std::to_string(names.size() - 1).size();
  std::vector<std::string> folders(names.begin(), names.end());
  const bool usable = std::all_of(names.begin(), names.end(), is_folder_name);
  const auto in_order = [&] {
    return std::adjacent_find(folders.begin(), folders.end(), std::greater_equal<>()) ==
           folders.end();
  };
  if (usable && in_order()) {
    return folders;
  }
  const bool numbers = std::all_of(names.begin(), names.end(), is_number);
  for (std::size_t label = 0; label < folders.size(); ++label) {
    std::string& folder = folders[label];
    std::replace(folder.begin(), folder.end(), '/', '_');
    folder = numbers ? padded(label, width) : concat(padded(label, width), "_", folder);
  }
  return folders;
}

void check_classes(const Dataset& dataset) {
  std::vector<bool> present(dataset.class_names().size());
  for (const std::int64_t label : dataset.labels()) {
    present[static_cast<std::size_t>(label)] = true;
  }
  const auto missing = std::find(present.begin(), present.end(), false);
  if (missing != present.end()) {
    throw ConfigError(
        concat("class ", dataset.class_names()[static_cast<std::size_t>(missing - present.begin())],
               " has no sample; an empty class folder would be refused when it is read"));
  }
}

void write_png(const std::filesystem::path& path, const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  if (png_image_write_to_file(&header, path.c_str(), 0, image.bytes().data(), 0, nullptr) == 0) {
    throw std::runtime_error(concat("cannot write ", path.string(), ": ", header.message));
  }
}

void write_all(const Dataset& dataset, const std::filesystem::path& folder) {
  const std::vector<std::string> folders = class_folders(dataset.class_names());
  for (const std::string& name : folders) {
    std::filesystem::create_directories(folder / name);
  }
  const std::size_t width = std::to_string(dataset.size() - 1).size();
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const auto label = static_cast<std::size_t>(dataset.labels()[i]);
    write_png(folder / folders[label] / concat(padded(i, width), ".png"), dataset.load(i));
  }
}

}  // namespace

std::uint64_t unpack_dataset(const Dataset& dataset, const std::filesystem::path& folder) {
  if (dataset.element_type() != ElementType::kUInt8) {
    throw ConfigError("float images cannot be written as PNG without loss; train from the archive");
  }
  if (std::filesystem::exists(std::filesystem::symlink_status(folder))) {
    throw ConfigError(concat(folder.string(), " exists already; remove it or choose another name"));
  }
  check_classes(dataset);
  std::filesystem::path temporary = folder.has_filename() ? folder : folder.parent_path();
  temporary.replace_filename(concat(".", temporary.filename().string(), ".", ::getpid(), ".tmp"));
  try {
    write_all(dataset, temporary);
    std::filesystem::rename(temporary, folder.has_filename() ? folder : folder.parent_path());
  } catch (...) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
  return dataset.size();
}

}  // namespace temper
