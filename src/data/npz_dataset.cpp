#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/codec.h"
#include "data/fingerprint.h"
#include "data/formats.h"
#include "data/npy_array.h"
#include "data/zip_archive.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using NamePair = std::pair<std::string, std::string>;  // images, labels

// Elements between neighbours along each axis.
struct ImageLayout {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::size_t sample_stride = 0;
  std::size_t row_stride = 0;
  std::size_t column_stride = 0;
  std::size_t channel_stride = 0;
};

template <typename T>
T read_as(const std::uint8_t* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

bool is_native(const NpyArray& array) {
  return array.item_size == 1 || array.dtype[0] == '<' || array.dtype[0] == '=';
}

// "u1", "f4", ...; empty for a foreign byte order.
std::string kind_of(const NpyArray& array) {
  return is_native(array) ? array.dtype.substr(1) : std::string();
}

struct Axes {
  std::size_t height, width;
  std::size_t channel;  // number of axes when there is none
};

Axes find_axes(const NpyArray& array, const std::string& name) {
  const std::vector<std::uint64_t>& shape = array.shape;
  const auto is_channel_count = [](std::uint64_t length) { return length == 1 || length == 3; };
  if (shape.size() == 3) {
    return {1, 2, 3};
  }
  if (shape.size() != 4) {
    throw ConfigError(concat(name, ": images have shape ", shape_text(array),
                             ", expected [N, H, W, C], [N, C, H, W] or [N, H, W]"));
  }
  const bool last = is_channel_count(shape[3]);
  const bool second = is_channel_count(shape[1]);
  if (last && second) {
    throw ConfigError(concat(name, ": ambiguous layout, shape ", shape_text(array),
                             " may be [N, H, W, C] or [N, C, H, W]; gray images may be stored as "
                             "[N, H, W]"));
  }
  if (!last && !second) {
    throw ConfigError(
        concat(name, ": images have shape ", shape_text(array), "; 1 or 3 channels are supported"));
  }
  return last ? Axes{1, 2, 3} : Axes{2, 3, 1};
}

ImageLayout image_layout(const NpyArray& array, const std::string& name) {
  const Axes axes = find_axes(array, name);
  const std::vector<std::uint64_t>& shape = array.shape;
  if (shape[0] == 0) {
    throw ConfigError(concat(name, ": is empty, shape ", shape_text(array)));
  }
  const std::uint64_t height = shape[axes.height];
  const std::uint64_t width = shape[axes.width];
  if (height == 0 || width == 0 || width > kMaxImagePixels / height) {
    throw ConfigError(
        concat(name, ": images have shape ", shape_text(array), ", an unusable height or width"));
  }
  std::vector<std::size_t> strides(shape.size() + 1, 0);
  std::size_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = array.fortran_order ? i : shape.size() - 1 - i;
    strides[axis] = stride;
    stride *= shape[axis];
  }
  const bool has_channel_axis = axes.channel < shape.size();
  return {static_cast<int>(height),
          static_cast<int>(width),
          has_channel_axis ? static_cast<int>(shape[axes.channel]) : 1,
          strides[0],
          strides[axes.height],
          strides[axes.width],
          has_channel_axis ? strides[axes.channel] : 0};
}

[[nodiscard]] std::size_t element_count(const ImageLayout& layout) {
  return static_cast<std::size_t>(layout.height) * static_cast<std::size_t>(layout.width) *
         static_cast<std::size_t>(layout.channels);
}

// One sample as interleaved rows; `out` holds element_count elements.
template <typename Stored, typename T>
void gather(const NpyArray& array, const ImageLayout& layout, std::size_t sample, T* out) {
  const auto channels = static_cast<std::size_t>(layout.channels);
  for (std::size_t y = 0; y < static_cast<std::size_t>(layout.height); ++y) {
    for (std::size_t x = 0; x < static_cast<std::size_t>(layout.width); ++x) {
      const std::size_t pixel =
          sample * layout.sample_stride + y * layout.row_stride + x * layout.column_stride;
      for (std::size_t c = 0; c < channels; ++c) {
        *out++ = static_cast<T>(read_as<Stored>(array.data(), pixel + c * layout.channel_stride));
      }
    }
  }
}

template <typename Stored>
void check_range(const NpyArray& array, const ImageLayout& layout, const std::string& name) {
  std::vector<Stored> values(element_count(layout));
  for (std::size_t sample = 0; sample < array.shape[0]; ++sample) {
    gather<Stored>(array, layout, sample, values.data());
    for (const Stored value : values) {
      if (!std::isfinite(value)) {
        throw ConfigError(concat(name, "[", sample, "]: a pixel is not finite"));
      }
      if (value < 0 || value > 1) {
        throw ConfigError(concat(name, "[", sample, "]: pixel value ", value,
                                 " is out of range; float images must lie in [0, 1]"));
      }
    }
  }
}

std::string check_images(const NpyArray& array, const ImageLayout& layout,
                         const std::string& name) {
  const std::string kind = kind_of(array);
  if (kind == "f4") {
    check_range<float>(array, layout, name);
  } else if (kind == "f8") {
    check_range<double>(array, layout, name);
  } else if (kind != "u1") {
    throw ConfigError(concat(name, ": images have dtype ", array.dtype,
                             "; expected uint8, float32 or float64 in this machine's byte order"));
  }
  return kind;
}

std::string_view type_name(std::string_view kind) {
  return kind == "u1" ? "uint8" : kind == "f4" ? "float32" : "float64";
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
  const std::string kind = kind_of(array);
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

NamePair find_arrays(const ZipArchive& archive, const SelectedPath& path) {
  const std::vector<NamePair> wanted = candidates(path.selector);
  for (const auto& [images, labels] : wanted) {
    if (archive.contains(images + ".npy") && archive.contains(labels + ".npy")) {
      return {images, labels};
    }
  }
  std::vector<std::string> found;
  for (const std::string& name : archive.names()) {
    found.push_back(name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name);
  }
  throw ConfigError(concat(
      path.path, ": missing array: no ", wanted.front().first, " and ", wanted.front().second,
      "; the file holds ", join(found, ", "), "; a name after '#' selects a split (", path.path,
      "#train: train_images, train_labels), two names both arrays (", path.path, "#x,y)"));
}

class NpzDataset final : public Dataset {
 public:
  NpzDataset(std::string images_name, NpyArray images, std::vector<std::int64_t> labels,
             std::int64_t classes, int channels)
      : images_name_(std::move(images_name)),
        images_(std::move(images)),
        layout_(image_layout(images_, images_name_)),
        kind_(check_images(images_, layout_, images_name_)),
        labels_(std::move(labels)),
        class_names_(numbered_classes(classes)),
        channels_(channels == 0 ? layout_.channels : channels) {
    Fingerprint fingerprint;
    fingerprint.add("npz");
    fingerprint.add(crc32_z(0, images_.file.data(), images_.file.size()));
    for (const std::int64_t label : labels_) {
      fingerprint.add(static_cast<std::uint64_t>(label));
    }
    fingerprint_ = fingerprint.value();
  }

  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  int channels() const override { return channels_; }
  ElementType element_type() const override {
    return kind_ == "u1" ? ElementType::kUInt8 : ElementType::kFloat32;
  }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::string sample_name(std::size_t index) const override {
    return concat(images_name_, "[", index, "]");
  }

  StoredSample read(std::size_t index, Buffer& buffer) const override {
    require(index < labels_.size(), "sample ", index, " of ", labels_.size());
    ImageView view{layout_.height, layout_.width, layout_.channels, element_type(), {}};
    const std::size_t bytes = element_count(layout_) * element_size(view.element_type);
    if (is_interleaved()) {
      view.bytes = {images_.data() + index * bytes, bytes};
      return view;
    }
    const std::span<std::uint8_t> pixels = buffer.take(bytes);
    if (kind_ == "u1") {
      gather<std::uint8_t>(images_, layout_, index, pixels.data());
    } else if (kind_ == "f4") {
      gather<float>(images_, layout_, index, reinterpret_cast<float*>(pixels.data()));
    } else {
      gather<double>(images_, layout_, index, reinterpret_cast<float*>(pixels.data()));
    }
    view.bytes = pixels;
    return view;
  }

  SampleInfo describe(std::size_t) const override { return {concat("npz ", type_name(kind_))}; }

 private:
  // Samples lie in the file as they are wanted.
  [[nodiscard]] bool is_interleaved() const {
    const auto channels = static_cast<std::size_t>(layout_.channels);
    return kind_ == "u1" && (channels == 1 || layout_.channel_stride == 1) &&
           layout_.column_stride == channels &&
           layout_.row_stride == channels * static_cast<std::size_t>(layout_.width) &&
           layout_.sample_stride == element_count(layout_);
  }

  std::string images_name_;  // file and array
  NpyArray images_;
  ImageLayout layout_;
  std::string kind_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> class_names_;
  int channels_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_npz(const DatasetOptions& options) {
  const SelectedPath path = split_selector(options.path);
  if (!std::filesystem::is_regular_file(path.path)) {
    throw ConfigError(concat("data file ", path.path, " is not there or no regular file"));
  }
  const ZipArchive archive(path.path);
  const auto [images_array, labels_array] = find_arrays(archive, path);
  const std::string images_name = concat(path.path, ":", images_array);
  const std::string labels_name = concat(path.path, ":", labels_array);
  NpyArray images = parse_npy(archive.read(images_array + ".npy"), images_name);
  std::vector<std::int64_t> labels =
      read_labels(parse_npy(archive.read(labels_array + ".npy"), labels_name), labels_name);
  if (images.shape.empty() || images.shape[0] != labels.size()) {
    throw ConfigError(concat(images_name, ": shape ", shape_text(images), " does not fit ",
                             labels.size(), " labels: the lengths differ"));
  }
  const std::int64_t classes = check_labels(labels, options.classes, labels_name);
  return std::make_unique<NpzDataset>(images_name, std::move(images), std::move(labels), classes,
                                      options.channels);
}

}  // namespace temper
