#include "temper/data/export.h"

#include <vector>

#include "data/byte_stream.h"
#include "data/folder_names.h"
#include "data/npz_writer.h"
#include "data/ordered_work.h"
#include "data/output_file.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/data/unpack.h"

namespace temper {
namespace {

bool holds_image_files(const Dataset& dataset) {
  Buffer buffer;
  return std::holds_alternative<EncodedImage>(dataset.read(0, buffer));
}

void write_image_files(const Dataset& dataset, const std::filesystem::path& folder, int threads) {
  const std::vector<std::string> names = sample_file_names(dataset);
  for_each_in_order(
      dataset.size(), threads,
      [&](std::size_t i) {
        Buffer buffer;
        const StoredSample sample = dataset.read(i, buffer);
        const std::filesystem::path path = folder / names[i];
        std::filesystem::create_directories(path.parent_path());
        OutputFile file(path);
        file.append(std::get<EncodedImage>(sample).bytes);
        file.finish(false);
        return true;
      },
      [](std::size_t, bool) {});
}

void check_same_size(const Dataset& dataset, const Image& first, const Image& image,
                     std::size_t index) {
  if (image.height != first.height || image.width != first.width) {
    throw ConfigError(concat(dataset.sample_name(index), ": has ", image.height, " x ", image.width,
                             " pixels, ", dataset.sample_name(0), " ", first.height, " x ",
                             first.width,
                             "; one array holds images of one size alone, a pack of any"));
  }
}

void write_images(const Dataset& dataset, NpzWriter& writer, int threads) {
  const Image first = dataset.load(0);
  const bool colour = first.channels == 3;
  if (colour && (first.height == 1 || first.height == 3)) {
    throw ConfigError("images of 1 or 3 rows would be ambiguous in an array; write a pack");
  }
  writer.begin(
      "images", first.element_type() == ElementType::kUInt8 ? "|u1" : "<f4",
      concat("(", dataset.size(), ", ", first.height, ", ", first.width, colour ? ", 3)" : ")"));
  for_each_in_order(
      dataset.size(), threads, [&](std::size_t i) { return dataset.load(i); },
      [&](std::size_t i, const Image& image) {
        check_same_size(dataset, first, image, i);
        Buffer buffer;
        writer.append(store(image, buffer).bytes);
      });
  writer.end();
}

void write_labels(const Dataset& dataset, NpzWriter& writer) {
  writer.begin("labels", "<i8", concat("(", dataset.size(), ",)"));
  ByteWriter labels;
  for (const std::int64_t label : dataset.labels()) {
    labels.u64(static_cast<std::uint64_t>(label));
  }
  writer.append(bytes_of(labels.bytes()));
  writer.end();
}

}  // namespace

std::uint64_t write_folder(const Dataset& dataset, const std::filesystem::path& folder,
                           int threads) {
  if (!holds_image_files(dataset)) {
    return unpack_dataset(dataset, folder);
  }
  require_absent(folder);
  require_every_class(dataset);
  create_folder_atomically(folder, [&](const std::filesystem::path& temporary) {
    write_image_files(dataset, temporary, threads);
  });
  return dataset.size();
}

std::uint64_t write_npz(const Dataset& dataset, const std::filesystem::path& file, int threads) {
  require_absent(file);
  std::uint64_t size = 0;
  replace_file_atomically(file, [&](const std::filesystem::path& temporary) {
    NpzWriter writer(temporary);
    write_images(dataset, writer, threads);
    write_labels(dataset, writer);
    size = writer.finish();
  });
  return size;
}

}  // namespace temper
