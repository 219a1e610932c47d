#include "data/npz_images.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "data/codec.h"
#include "temper/core/error.h"

namespace temper {
namespace {

template <typename T>
T read_as(const std::uint8_t* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

NpzElement element_of(const NpyHeader& header, const std::string& name) {
  if (header.dtype == "|u1" || header.dtype == "<u1" || header.dtype == "=u1" ||
      header.dtype == ">u1") {
    return NpzElement::kUInt8;
  }
  const bool native = header.dtype[0] == '<' || header.dtype[0] == '=';
  if (native && header.dtype.ends_with("f4")) {
    return NpzElement::kFloat32;
  }
  if (native && header.dtype.ends_with("f8")) {
    return NpzElement::kFloat64;
  }
  throw ConfigError(concat(name, ": images have dtype ", header.dtype,
                           "; expected uint8, float32 or float64 in this machine's byte order"));
}

struct Axes {
  std::size_t height, width;
  std::size_t channel;  // number of axes when there is none
};

Axes find_axes(const NpyHeader& array, const std::string& name) {
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

template <typename Stored, typename T>
void gather(const NpzLayout& layout, const std::uint8_t* first, T* out) {
  const auto channels = static_cast<std::size_t>(layout.channels);
  for (std::size_t y = 0; y < static_cast<std::size_t>(layout.height); ++y) {
    for (std::size_t x = 0; x < static_cast<std::size_t>(layout.width); ++x) {
      const std::size_t pixel = y * layout.row_stride + x * layout.column_stride;
      for (std::size_t c = 0; c < channels; ++c) {
        *out++ = static_cast<T>(read_as<Stored>(first, pixel + c * layout.channel_stride));
      }
    }
  }
}

template <typename Stored>
void check_floats(const NpzLayout& layout, std::uint64_t begin, std::span<const std::uint8_t> bytes,
                  const std::string& name) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Stored); ++i) {
    const auto value = read_as<Stored>(bytes.data(), i);
    if (value >= 0 && value <= 1) {
      continue;
    }
    const std::uint64_t element = begin + i;
    const std::uint64_t sample =
        layout.is_sample_major() ? element / layout.element_count() : element % layout.samples;
    if (!std::isfinite(value)) {
      throw ConfigError(concat(name, "[", sample, "]: a pixel is not finite"));
    }
    throw ConfigError(concat(name, "[", sample, "]: pixel value ", value,
                             " is out of range; float images must lie in [0, 1]"));
  }
}

}  // namespace

std::size_t NpzLayout::item_size() const {
  return element == NpzElement::kUInt8 ? 1 : element == NpzElement::kFloat32 ? 4 : 8;
}

std::size_t NpzLayout::element_count() const {
  return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
         static_cast<std::size_t>(channels);
}

bool NpzLayout::is_interleaved() const {
  const auto count = static_cast<std::size_t>(channels);
  return (count == 1 || channel_stride == 1) && column_stride == count &&
         row_stride == count * static_cast<std::size_t>(width);
}

std::string_view element_name(NpzElement element) {
  return element == NpzElement::kUInt8     ? "uint8"
         : element == NpzElement::kFloat32 ? "float32"
                                           : "float64";
}

NpzLayout npz_layout(const NpyHeader& header, const std::string& name) {
  const Axes axes = find_axes(header, name);
  const std::vector<std::uint64_t>& shape = header.shape;
  if (shape[0] == 0) {
    throw ConfigError(concat(name, ": is empty, shape ", shape_text(header)));
  }
  const std::uint64_t height = shape[axes.height];
  const std::uint64_t width = shape[axes.width];
  if (height == 0 || width == 0 || width > kMaxImagePixels / height) {
    throw ConfigError(
        concat(name, ": images have shape ", shape_text(header), ", an unusable height or width"));
  }
  std::vector<std::size_t> strides(shape.size() + 1, 0);
  std::size_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = header.fortran_order ? i : shape.size() - 1 - i;
    strides[axis] = stride;
    stride *= shape[axis];
  }
  const bool has_channel_axis = axes.channel < shape.size();
  return {.element = element_of(header, name),
          .samples = shape[0],
          .height = static_cast<int>(height),
          .width = static_cast<int>(width),
          .channels = has_channel_axis ? static_cast<int>(shape[axes.channel]) : 1,
          .sample_stride = strides[0],
          .row_stride = strides[axes.height],
          .column_stride = strides[axes.width],
          .channel_stride = has_channel_axis ? strides[axes.channel] : 0};
}

void gather_sample(const NpzLayout& layout, const std::uint8_t* first,
                   std::span<std::uint8_t> out) {
  switch (layout.element) {
    case NpzElement::kUInt8:
      gather<std::uint8_t>(layout, first, out.data());
      break;
    case NpzElement::kFloat32:
      gather<float>(layout, first, reinterpret_cast<float*>(out.data()));
      break;
    case NpzElement::kFloat64:
      gather<double>(layout, first, reinterpret_cast<float*>(out.data()));
      break;
  }
}

void check_elements(const NpzLayout& layout, std::uint64_t begin,
                    std::span<const std::uint8_t> bytes, const std::string& name) {
  if (layout.element == NpzElement::kFloat32) {
    check_floats<float>(layout, begin, bytes, name);
  } else if (layout.element == NpzElement::kFloat64) {
    check_floats<double>(layout, begin, bytes, name);
  }
}

}  // namespace temper
