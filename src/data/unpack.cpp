#include "temper/data/unpack.h"

#include <png.h>

#include <string>
#include <vector>

#include "data/folder_names.h"
#include "data/output_file.h"
#include "temper/core/error.h"

namespace temper {
namespace {

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
  const std::vector<std::string> folders = class_folder_names(dataset.class_names());
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
    throw ConfigError(
        "float images cannot be written as PNG without loss; keep them as npz or pack");
  }
  require_absent(folder);
  require_every_class(dataset);
  create_folder_atomically(
      folder, [&](const std::filesystem::path& temporary) { write_all(dataset, temporary); });
  return dataset.size();
}

}  // namespace temper
