#include "data/codec.h"
#include "data/fingerprint.h"
#include "data/folder_cache.h"
#include "data/folder_scan.h"
#include "data/formats.h"
#include "data/input_file.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

std::uint64_t fingerprint_of(const FolderIndex& index) {
  Fingerprint fingerprint;
  fingerprint.add("folder");
  for (const std::string& name : index.classes) {
    fingerprint.add(name);
  }
  for (std::size_t i = 0; i < index.labels.size(); ++i) {
    fingerprint.add(index.path(i));
    fingerprint.add(static_cast<std::uint64_t>(index.labels[i]));
    fingerprint.add(index.sizes[i]);
  }
  return fingerprint.value();
}

class FolderDataset final : public Dataset {
 public:
  FolderDataset(std::filesystem::path root, FolderIndex index, int channels, bool upright)
      : root_(std::move(root)),
        index_(std::move(index)),
        channels_(channels),
        upright_(upright),
        fingerprint_(fingerprint_of(index_)) {}

  std::span<const std::int64_t> labels() const override { return index_.labels; }
  std::span<const std::string> class_names() const override { return index_.classes; }
  int channels() const override { return channels_; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::string sample_name(std::size_t index) const override { return path(index).string(); }
  std::string local_name(std::size_t index) const override {
    return std::string(index_.path(index));
  }

  StoredSample read(std::size_t index, Buffer& buffer) const override {
    return EncodedImage{read_regular_file(path(index), buffer), upright_};
  }
  std::uint64_t stored_size(std::size_t index) const override {
    const std::uint64_t size = index_.sizes[index];
    return size == FolderIndex::kUnknownSize ? 0 : size;
  }
  SampleInfo describe(std::size_t index) const override {
    Buffer buffer;
    const auto file = read_regular_file(path(index), buffer);
    try {
      return {describe_encoding(file)};
    } catch (const DataError& error) {
      throw DataError(concat(sample_name(index), ": ", error.what()));
    }
  }

 private:
  std::filesystem::path path(std::size_t index) const { return root_ / index_.path(index); }

  std::filesystem::path root_;
  FolderIndex index_;
  int channels_;
  bool upright_;
  std::uint64_t fingerprint_;
};

// "FOLDER" or "FOLDER#index=FILE".
SelectedPath split_index(const std::string& text) {
  constexpr std::string_view kIndex = "index=";
  SelectedPath path = split_selector(text);
  if (path.selector.empty()) {
    return path;
  }
  if (!path.selector.starts_with(kIndex) || path.selector.size() == kIndex.size()) {
    throw ConfigError(concat(text, ": a folder may be followed by #index=FILE alone"));
  }
  path.selector.erase(0, kIndex.size());
  return path;
}

FolderIndex index_of(const std::string& root, const std::string& cache, bool labelled) {
  if (!labelled) {
    return scan_unlabelled_folder(root);
  }
  std::optional<FolderIndex> kept = load_folder_cache(root, cache);
  return kept ? std::move(*kept) : scan_folder(root);
}

}  // namespace

std::unique_ptr<Dataset> open_folder(const DatasetOptions& options) {
  const auto [root, cache] = split_index(options.path);
  FolderIndex index = index_of(root, cache, options.labelled);
  index.folders = {};
  if (options.classes > 0 && index.classes.size() != static_cast<std::size_t>(options.classes)) {
    throw ConfigError(concat(root, " holds ", index.classes.size(),
                             " class folders, but data.classes is ", options.classes));
  }
  if (index.skipped > 0) {
    log_warning(root, ": passed over ", index.skipped,
                " files and folders whose names start with a dot");
  }
  return std::make_unique<FolderDataset>(root, std::move(index), options.channels == 1 ? 1 : 3,
                                         options.upright);
}

}  // namespace temper
