#include <filesystem>

#include "data/checksum.h"
#include "data/codec.h"
#include "data/fingerprint.h"
#include "data/formats.h"
#include "data/idx_file.h"
#include "temper/core/error.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

struct IdxPair {
  fs::path images;
  fs::path labels;
};

class MnistDataset final : public Dataset {
 public:
  MnistDataset(const IdxPair& files, const DatasetOptions& options)
      : name_(files.images.string()),
        images_(read_idx(files.images, 3)),
        channels_(options.channels == 3 ? 3 : 1) {
    const IdxArray labels = read_idx(files.labels, 1);
    if (labels.shape[0] != images_.shape[0]) {
      throw ConfigError(concat(name_, ": holds ", images_.shape[0], " images, but ",
                               files.labels.string(), " ", labels.shape[0], " labels"));
    }
    const std::uint64_t height = images_.shape[1];
    const std::uint64_t width = images_.shape[2];
    if (images_.shape[0] == 0 || height == 0 || width == 0 || width > kMaxImagePixels / height) {
      throw ConfigError(concat(name_, ": ", images_.shape[0], " images of ", height, " x ", width,
                               " pixels are of no use"));
    }
    labels_.assign(labels.data.begin(), labels.data.end());
    class_names_ = numbered_classes(check_labels(labels_, options.classes, files.labels.string()));
    Fingerprint fingerprint;
    fingerprint.add("mnist");
    fingerprint.add(height);
    fingerprint.add(width);
    fingerprint.add(std::uint64_t{crc32_of(images_.data)});
    fingerprint.add(std::uint64_t{crc32_of(labels.data)});
    fingerprint_ = fingerprint.value();
  }

  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  int channels() const override { return channels_; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::string sample_name(std::size_t index) const override {
    return concat(name_, "[", index, "]");
  }

  std::uint64_t held_bytes() const override { return images_.data.size(); }

  StoredSample read(std::size_t index, Buffer&) const override {
    require(index < labels_.size(), "sample ", index, " of ", labels_.size());
    const std::size_t size = std::size_t{images_.shape[1]} * images_.shape[2];
    return ImageView{static_cast<int>(images_.shape[1]), static_cast<int>(images_.shape[2]), 1,
                     ElementType::kUInt8, std::span(images_.data).subspan(index * size, size)};
  }

  SampleInfo describe(std::size_t) const override { return {"mnist"}; }

 private:
  std::string name_;
  IdxArray images_;
  int channels_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> class_names_;
  std::uint64_t fingerprint_ = 0;
};

// As published ("-idx3-"), or as some unpackers name it (".idx3-"); plain before gzipped.
fs::path find_array(const fs::path& folder, const std::string& name, const char* kind) {
  for (const char* joint : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      const fs::path file = folder / concat(name, joint, kind, "-ubyte", suffix);
      if (fs::is_regular_file(file)) {
        return file;
      }
    }
  }
  return {};
}

IdxPair find_pair(const fs::path& folder, const std::string& split) {
  return {find_array(folder, concat(split, "-images"), "idx3"),
          find_array(folder, concat(split, "-labels"), "idx1")};
}

// Where torchvision's MNIST classes put the files below their root.
std::vector<fs::path> places(const fs::path& folder) {
  return {folder, folder / "raw", folder / "MNIST" / "raw"};
}

// "train-images-idx3-ubyte" to "train-labels-idx1-ubyte".
fs::path labels_beside(const fs::path& images) {
  std::string name = images.filename().string();
  for (const auto& [from, to] : {std::pair{"images", "labels"}, std::pair{"idx3", "idx1"}}) {
    const std::size_t at = name.rfind(from);
    if (at == std::string::npos) {
      return {};
    }
    name.replace(at, std::string_view(from).size(), to);
  }
  for (const char* suffix : {"", ".gz"}) {
    if (const fs::path file = images.parent_path() / (name + suffix); fs::is_regular_file(file)) {
      return file;
    }
  }
  return {};
}

IdxPair chosen_pair(const SelectedPath& path) {
  if (fs::is_regular_file(path.path)) {
    const fs::path labels = labels_beside(path.path);
    if (labels.empty()) {
      throw ConfigError(concat(path.path,
                               ": the file with its labels is not beside it; images are "
                               "expected as train-images-idx3-ubyte with train-labels-idx1-ubyte"));
    }
    return {path.path, labels};
  }
  if (path.selector != "" && path.selector != "train" && path.selector != "test") {
    throw ConfigError(
        concat(path.path, "#", path.selector, ": mnist has the splits train and test"));
  }
  const std::string split = path.selector == "test" ? "t10k" : "train";
  for (const fs::path& folder : places(path.path)) {
    const IdxPair pair = find_pair(folder, split);
    if (!pair.images.empty() && !pair.labels.empty()) {
      return pair;
    }
  }
  throw ConfigError(concat("data files ", split, "-images-idx3-ubyte and ", split,
                           "-labels-idx1-ubyte (or with .gz) of mnist are not in ", path.path));
}

}  // namespace

bool looks_like_mnist(const fs::path& path) {
  if (fs::is_regular_file(path)) {
    return path.filename().string().find("idx3") != std::string::npos;
  }
  for (const fs::path& folder : places(path)) {
    if (!find_pair(folder, "train").images.empty() || !find_pair(folder, "t10k").images.empty()) {
      return true;
    }
  }
  return false;
}

std::unique_ptr<Dataset> open_mnist(const DatasetOptions& options) {
  return std::make_unique<MnistDataset>(chosen_pair(split_selector(options.path)), options);
}

}  // namespace temper
