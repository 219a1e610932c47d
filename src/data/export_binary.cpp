#include <algorithm>
#include <filesystem>

#include "data/convert.h"
#include "data/formats.h"
#include "data/ordered_work.h"
#include "data/output_file.h"
#include "temper/core/error.h"
#include "temper/data/export.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr int kCifarSide = 32;

// Bytes with one or three channels, of the size that the format asks for.
Image fitting_image(const Dataset& dataset, std::size_t index, const char* format, int height,
                    int width, int channels) {
  Image image = dataset.load(index);
  if (image.element_type() != ElementType::kUInt8) {
    throw ConfigError(concat(format, " holds bytes, ", dataset.sample_name(index), " has floats"));
  }
  if (image.height != height || image.width != width) {
    throw ConfigError(concat(dataset.sample_name(index), ": has ", image.height, " x ", image.width,
                             " pixels, ", format, " takes ", height, " x ", width, " here"));
  }
  if (image.channels != channels && channels == 1) {
    throw ConfigError(concat(dataset.sample_name(index), ": has colours, ", format,
                             " is gray; give --channels 1"));
  }
  return with_channels(std::move(image), channels);
}

void check_labels_fit(const Dataset& dataset, const char* format, std::size_t classes) {
  if (dataset.class_names().size() > classes) {
    throw ConfigError(concat(format, " has at most ", classes, " classes, the data have ",
                             dataset.class_names().size()));
  }
}

// One row: the label behind as many zeros as the format has bytes before it, then the planes.
std::vector<std::uint8_t> cifar_row(const CifarLayout& layout, const Image& image,
                                    std::int64_t label) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(layout.label_bytes), 0);
  row.back() = static_cast<std::uint8_t>(label);
  Buffer buffer;
  const std::span<const std::uint8_t> pixels = store(image, buffer).bytes;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t at = channel; at < pixels.size(); at += 3) {
      row.push_back(pixels[at]);
    }
  }
  return row;
}

void write_cifar_file(const Dataset& dataset, const CifarLayout& layout, const fs::path& path,
                      std::size_t begin, std::size_t end, int threads) {
  OutputFile file(path);
  for_each_in_order(
      end - begin, threads,
      [&](std::size_t i) {
        const Image image =
            fitting_image(dataset, begin + i, layout.format, kCifarSide, kCifarSide, 3);
        return cifar_row(layout, image, dataset.labels()[begin + i]);
      },
      [&](std::size_t, const std::vector<std::uint8_t>& row) { file.append(row); });
  file.finish();
}

void write_class_names(const Dataset& dataset, const CifarLayout& layout, const fs::path& folder) {
  if (dataset.class_names().size() != static_cast<std::size_t>(layout.classes)) {
    return;  // the reader numbers them
  }
  std::string text;
  for (const std::string& name : dataset.class_names()) {
    text += name + "\n";
  }
  OutputFile file(folder / layout.names_file);
  file.append({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  file.finish();
}

std::vector<std::uint8_t> idx_header(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint8_t> header{0, 0, 8, static_cast<std::uint8_t>(shape.size())};
  for (const std::uint64_t length : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      header.push_back(static_cast<std::uint8_t>(length >> shift));
    }
  }
  return header;
}

// The folder and which of the two splits, from "folder" or "folder#test".
std::pair<fs::path, bool> folder_and_split(const std::string& output, const char* format) {
  const std::size_t hash = output.rfind('#');
  const std::string split = hash == std::string::npos ? "train" : output.substr(hash + 1);
  if (split != "train" && split != "test") {
    throw ConfigError(concat(output, ": ", format, " has the splits train and test"));
  }
  return {output.substr(0, hash), split == "test"};
}

}  // namespace

std::uint64_t write_cifar(const Dataset& dataset, const std::string& format,
                          const std::string& output, int threads) {
  const CifarLayout& layout = format == "cifar100" ? cifar100_layout() : cifar10_layout();
  const auto [folder, is_test] = folder_and_split(output, layout.format);
  require_absent(folder);
  check_labels_fit(dataset, layout.format, static_cast<std::size_t>(layout.classes));
  const std::vector<std::string> names =
      is_test ? std::vector<std::string>{layout.test_file} : layout.train_files;
  if (dataset.size() < names.size()) {
    throw ConfigError(concat(dataset.size(), " samples are too few for the ", names.size(),
                             " files of ", layout.format));
  }
  create_folder_atomically(folder, [&](const fs::path& temporary) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      write_cifar_file(dataset, layout, temporary / names[i], i * dataset.size() / names.size(),
                       (i + 1) * dataset.size() / names.size(), threads);
    }
    write_class_names(dataset, layout, temporary);
  });
  return names.size();
}

std::uint64_t write_mnist(const Dataset& dataset, const std::string& output, int threads) {
  const auto [folder, is_test] = folder_and_split(output, "mnist");
  require_absent(folder);
  check_labels_fit(dataset, "mnist", 256);
  const Image first = dataset.load(0);
  create_folder_atomically(folder, [&, test = is_test](const fs::path& temporary) {
    const std::string split = test ? "t10k" : "train";
    OutputFile images(temporary / (split + "-images-idx3-ubyte"));
    images.append(idx_header({dataset.size(), static_cast<std::uint64_t>(first.height),
                              static_cast<std::uint64_t>(first.width)}));
    for_each_in_order(
        dataset.size(), threads,
        [&](std::size_t i) {
          return fitting_image(dataset, i, "mnist", first.height, first.width, 1);
        },
        [&](std::size_t, const Image& image) {
          Buffer buffer;
          images.append(store(image, buffer).bytes);
        });
    images.finish();
    OutputFile labels(temporary / (split + "-labels-idx1-ubyte"));
    labels.append(idx_header({dataset.size()}));
    std::vector<std::uint8_t> bytes;
    std::ranges::transform(dataset.labels(), std::back_inserter(bytes),
                           [](std::int64_t label) { return static_cast<std::uint8_t>(label); });
    labels.append(bytes);
    labels.finish();
  });
  return 2;
}

}  // namespace temper
