#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <utility>

#include "data/checksum.h"
#include "data/fingerprint.h"
#include "data/formats.h"
#include "data/npy_array.h"
#include "data/npz_images.h"
#include "data/zip_archive.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

using NamePair = std::pair<std::string, std::string>;  // images, labels

template <typename T>
T read_as(const std::uint8_t* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

bool is_native(const NpyArray& array) {
  return array.item_size == 1 || array.dtype[0] == '<' || array.dtype[0] == '=';
}

template <typename Stored>
std::vector<std::int64_t> widen(const NpyArray& array, const std::string& name) {
  std::vector<std::int64_t> labels(array.element_count());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto value = read_as<Stored>(array.data(), i);
    if (!std::in_range<std::int64_t>(value)) {
      throw ConfigError(concat(name, "[", i, "]: label ", value, " is out of range"));
    }
    labels[i] = static_cast<std::int64_t>(value);
  }
  return labels;
}

std::vector<std::int64_t> read_labels(const NpyArray& array, const std::string& name) {
  const bool column = array.shape.size() == 2 && array.shape[1] == 1;
  if (array.shape.size() != 1 && !column) {
    throw ConfigError(
        concat(name, ": labels have shape ", shape_text(array), ", expected [N] or [N, 1]"));
  }
  const std::string kind = is_native(array) ? array.dtype.substr(1) : std::string();
  using Reader = std::vector<std::int64_t> (*)(const NpyArray&, const std::string&);
  const std::array<std::pair<const char*, Reader>, 8> readers = {{{"i1", widen<std::int8_t>},
                                                                  {"i2", widen<std::int16_t>},
                                                                  {"i4", widen<std::int32_t>},
                                                                  {"i8", widen<std::int64_t>},
                                                                  {"u1", widen<std::uint8_t>},
                                                                  {"u2", widen<std::uint16_t>},
                                                                  {"u4", widen<std::uint32_t>},
                                                                  {"u8", widen<std::uint64_t>}}};
  for (const auto& [type, reader] : readers) {
    if (kind == type) {
      return reader(array, name);
    }
  }
  throw ConfigError(concat(name, ": labels have dtype ", array.dtype,
                           "; expected integers in this machine's byte order"));
}

std::vector<NamePair> candidates(const std::string& selector) {
  if (selector.empty()) {
    return {{"images", "labels"}};
  }
  const std::vector<std::string> names = split(selector, ',');
  if (names.size() == 2) {
    return {{names[0], names[1]}};
  }
  return {{concat(selector, "_images"), concat(selector, "_labels")},
          {concat("x_", selector), concat("y_", selector)}};
}

NamePair find_arrays(const ZipArchive& archive, const SelectedPath& path, bool labelled) {
  std::vector<NamePair> wanted = candidates(path.selector);
  if (!labelled && !path.selector.empty()) {
    wanted.push_back({path.selector, ""});
  }
  for (const auto& [images, labels] : wanted) {
    if (archive.contains(images + ".npy") && (!labelled || archive.contains(labels + ".npy"))) {
      return {images, labels};
    }
  }
  std::vector<std::string> found;
  for (const std::string& name : archive.names()) {
    found.push_back(name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name);
  }
  throw ConfigError(
      concat(path.path, ": missing array: no ", wanted.front().first,
             labelled ? concat(" and ", wanted.front().second) : "", "; the file holds ",
             join(found, ", "), "; a name after '#' selects a split (", path.path,
             "#train: train_images, train_labels), two names both arrays (", path.path, "#x,y)"));
}

// The bytes of a .npy file: in the archive, or in memory when they are deflated there.
class ArrayBytes {
 public:
  ArrayBytes(const ZipArchive& archive, const std::string& member)
      : region_(archive.locate(member)) {
    if (region_.deflated) {
      memory_ = archive.read(member);
    } else {
      file_ = archive.file();
    }
  }

  [[nodiscard]] const ZipRegion& region() const { return region_; }
  // Deflated bytes are checked when they are inflated.
  [[nodiscard]] bool in_archive() const { return file_ != nullptr; }
  [[nodiscard]] std::span<const std::uint8_t> view(std::uint64_t offset, std::uint64_t size,
                                                   Buffer& buffer) const {
    return in_archive() ? file_->view(region_.offset + offset, size, buffer)
                        : std::span(memory_).subspan(offset, size);
  }
  // Where all the bytes lie in memory; null when they have to be read.
  [[nodiscard]] const std::uint8_t* memory() const {
    Buffer none;
    const bool lies_there = !in_archive() || file_->is_mapped();
    return lies_there ? view(0, region_.size, none).data() : nullptr;
  }
  void load() {
    Buffer buffer;
    const auto bytes = view(0, region_.size, buffer);
    memory_.assign(bytes.begin(), bytes.end());
    file_.reset();
  }

 private:
  ZipRegion region_;
  std::shared_ptr<const DataFile> file_;
  std::vector<std::uint8_t> memory_;
};

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

// Reads all once: the checksum, and the range of floats.
void check_content(const ArrayBytes& bytes, const NpzLayout& layout, std::uint64_t data_begin,
                   const std::string& name) {
  Buffer buffer;
  std::uint32_t crc = crc32_of(bytes.view(0, data_begin, buffer));
  for (std::uint64_t at = data_begin; at < bytes.region().size; at += kPiece) {
    const auto piece = bytes.view(at, std::min(kPiece, bytes.region().size - at), buffer);
    crc = crc32_of(piece, crc);
    check_elements(layout, (at - data_begin) / layout.item_size(), piece, name);
  }
  if (crc != bytes.region().crc) {
    throw DataError(concat(name, ": wrong checksum: the file is damaged"));
  }
}

class NpzDataset final : public Dataset {
 public:
  NpzDataset(std::string images_name, ArrayBytes bytes, const NpyHeader& header,
             std::vector<std::int64_t> labels, std::int64_t classes, int channels,
             std::uint64_t check_limit)
      : images_name_(std::move(images_name)),
        bytes_(std::move(bytes)),
        data_begin_(header.data_begin),
        layout_(npz_layout(header, images_name_)),
        labels_(std::move(labels)),
        class_names_(numbered_classes(classes)),
        channels_(channels == 0 ? layout_.channels : channels),
        checked_(!bytes_.in_archive() || bytes_.region().size <= check_limit) {
    if (!layout_.is_sample_major() && bytes_.memory() == nullptr) {
      bytes_.load();  // the elements of a sample are all over the file
    }
    if (checked_) {
      check_content(bytes_, layout_, data_begin_, images_name_);
    } else {
      log_info(images_name_,
               ": too large to check its checksum at every start; `datatool verify` "
               "does");
    }
    memory_ = bytes_.memory();
    Fingerprint fingerprint;
    fingerprint.add("npz");
    fingerprint.add(std::uint64_t{bytes_.region().crc});
    for (const std::int64_t label : labels_) {
      fingerprint.add(static_cast<std::uint64_t>(label));
    }
    fingerprint_ = fingerprint.value();
  }

  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  int channels() const override { return channels_; }
  ElementType element_type() const override { return layout_.element_type(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::string sample_name(std::size_t index) const override {
    return concat(images_name_, "[", index, "]");
  }
  std::optional<std::uint64_t> offset(std::size_t index) const override {
    return bytes_.in_archive() ? std::optional(bytes_.region().offset + first_byte(index))
                               : std::nullopt;
  }
  std::uint64_t held_bytes() const override {
    return bytes_.in_archive() ? 0 : bytes_.region().size;
  }
  void check_storage() const override {
    if (!checked_) {
      check_content(bytes_, layout_, data_begin_, images_name_);
    }
  }

  StoredSample read(std::size_t index, Buffer& buffer) const override {
    require(index < labels_.size(), "sample ", index, " of ", labels_.size());
    ImageView view{layout_.height, layout_.width, layout_.channels, element_type(), {}};
    const std::size_t stored = layout_.element_count() * layout_.item_size();
    const std::size_t wanted = layout_.element_count() * element_size(view.element_type);
    const bool as_wanted = layout_.is_interleaved() && stored == wanted;
    if (as_wanted && memory_ == nullptr) {
      view.bytes = bytes_.view(first_byte(index), stored, buffer);
      check(index, view.bytes);
      return view;
    }
    if (as_wanted && is_aligned(memory_ + first_byte(index))) {
      view.bytes = {memory_ + first_byte(index), stored};
      check(index, view.bytes);
      return view;
    }
    view.bytes = gathered(index, stored, wanted, buffer);
    return view;
  }

  SampleInfo describe(std::size_t) const override {
    return {concat("npz ", element_name(layout_.element))};
  }

 private:
  [[nodiscard]] std::uint64_t first_byte(std::size_t index) const {
    return data_begin_ + index * layout_.sample_stride * layout_.item_size();
  }
  [[nodiscard]] bool is_aligned(const std::uint8_t* data) const {
    return reinterpret_cast<std::uintptr_t>(data) % layout_.item_size() == 0;
  }
  void check(std::size_t index, std::span<const std::uint8_t> bytes) const {
    if (checked_) {
      return;
    }
    try {
      check_elements(layout_, index * layout_.element_count(), bytes, images_name_);
    } catch (const ConfigError& error) {
      throw DataError(error.what());  // training has begun
    }
  }

  std::span<const std::uint8_t> gathered(std::size_t index, std::size_t stored, std::size_t wanted,
                                         Buffer& buffer) const {
    const std::uint8_t* first = nullptr;
    std::span<std::uint8_t> out;
    Buffer raw;
    if (memory_ != nullptr) {
      first = memory_ + first_byte(index);
    } else {
      first = bytes_.view(first_byte(index), stored, raw).data();
    }
    if (layout_.is_sample_major()) {
      check(index, {first, stored});
    }
    out = buffer.take(wanted);
    gather_sample(layout_, first, out);
    return out;
  }

  std::string images_name_;  // file and array
  ArrayBytes bytes_;
  std::uint64_t data_begin_;
  NpzLayout layout_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> class_names_;
  int channels_;
  bool checked_;
  const std::uint8_t* memory_ = nullptr;  // of the .npy file
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_npz(const DatasetOptions& options, const NpzAccess& access) {
  const SelectedPath path = split_selector(options.path);
  if (!std::filesystem::is_regular_file(path.path)) {
    throw ConfigError(concat("data file ", path.path, " is not there or no regular file"));
  }
  const ZipArchive archive(path.path, access.mapping);
  const auto [images_array, labels_array] = find_arrays(archive, path, options.labelled);
  const std::string images_name = concat(path.path, ":", images_array);
  const std::string labels_name = concat(path.path, ":", labels_array);
  auto inflated =
      std::async(std::launch::async, [&] { return ArrayBytes(archive, images_array + ".npy"); });
  std::vector<std::int64_t> labels;
  if (options.labelled) {
    labels = read_labels(parse_npy(archive.read(labels_array + ".npy"), labels_name), labels_name);
  }
  ArrayBytes bytes = inflated.get();
  Buffer buffer;
  const NpyHeader images =
      parse_npy_header(bytes.view(0, std::min(kMaxNpyHeader, bytes.region().size), buffer),
                       bytes.region().size, images_name);
  if (!options.labelled && !images.shape.empty()) {
    labels.assign(images.shape[0], kNoLabel);
  }
  if (images.shape.empty() || images.shape[0] != labels.size()) {
    throw ConfigError(concat(images_name, ": shape ", shape_text(images), " does not fit ",
                             labels.size(), " labels: the lengths differ"));
  }
  const std::int64_t classes =
      options.labelled ? check_labels(labels, options.classes, labels_name) : 0;
  return std::make_unique<NpzDataset>(images_name, std::move(bytes), images, std::move(labels),
                                      classes, options.channels, access.check_limit);
}

}  // namespace temper
