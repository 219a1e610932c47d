#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "temper/core/error.h"

namespace temper {
namespace {

// The geometry of Pillow's triangle filter along one axis. The order of operations is Pillow's: a
// different rounding would show in the pixels.
struct Filter {
  Filter(int in, int out)
      : in_size(in), scale(static_cast<double>(in) / out), support(std::max(scale, 1.0)) {}

  [[nodiscard]] double center(int output) const { return (output + 0.5) * scale; }
  [[nodiscard]] int first(int output) const {
    return std::max(0, static_cast<int>(center(output) - support + 0.5));
  }
  [[nodiscard]] int end(int output) const {
    return std::min(in_size, static_cast<int>(center(output) + support + 0.5));
  }
  [[nodiscard]] std::size_t taps() const {
    return static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  }

  int in_size;
  double scale;
  double support;
};

void set_weights(const std::vector<double>& raw, std::size_t used, double sum, float* out) {
  for (std::size_t i = 0; i < used; ++i) {
    out[i] = static_cast<float>(sum != 0.0 ? raw[i] / sum : raw[i]);
  }
}
void set_weights(const std::vector<double>& raw, std::size_t used, double sum, std::int32_t* out) {
  for (std::size_t i = 0; i < used; ++i) {
    const double weight = sum != 0.0 ? raw[i] / sum : raw[i];
    out[i] = static_cast<std::int32_t>(0.5 + weight * (1 << kResizeBits));
  }
}

template <typename Weight>
void make_axis(int in_size, int out_size, int begin, int count, ResizeAxis<Weight>& axis) {
  const Filter filter(in_size, out_size);
  const auto outputs = static_cast<std::size_t>(count);
  axis.taps = (filter.taps() + 3) / 4 * 4;
  axis.weights.assign(axis.taps * outputs, 0);
  axis.first.resize(outputs);
  axis.used.resize(outputs);
  std::vector<double> raw(axis.taps);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double center = filter.center(begin + i);
    const double inverse = 1.0 / filter.support;
    const int first = filter.first(begin + i);
    const int used = filter.end(begin + i) - first;
    double sum = 0;
    for (int x = 0; x < used; ++x) {
      const double distance = std::abs((x + first - center + 0.5) * inverse);
      raw[static_cast<std::size_t>(x)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += raw[static_cast<std::size_t>(x)];
    }
    set_weights(raw, static_cast<std::size_t>(used), sum, axis.weights.data() + at * axis.taps);
    axis.first[at] = first;
    axis.used[at] = used;
  }
}

void make_axis(int in_size, int out_size, int begin, int count, ByteAxis& axis) {
  make_axis<std::int32_t>(in_size, out_size, begin, count, axis);
  axis.high.resize(axis.weights.size());
  axis.low.resize(axis.weights.size());
  for (std::size_t i = 0; i < axis.weights.size(); ++i) {
    axis.high[i] = static_cast<std::int16_t>(axis.weights[i] >> kResizeLowBits);
    axis.low[i] = static_cast<std::int16_t>(axis.weights[i] & ((1 << kResizeLowBits) - 1));
  }
}

// Inputs that outputs begin ... begin + count - 1 of one axis look at, as begin and count.
std::pair<int, int> inputs_of(int in_size, int out_size, int begin, int count) {
  if (in_size == out_size) {
    return {begin, count};
  }
  const Filter filter(in_size, out_size);
  const int first = filter.first(begin);
  return {first, filter.end(begin + count - 1) - first};
}

// The needed part of the crop, in its coordinates.
Rectangle needed_part(const Resampling& r) {
  const auto [x, width] = inputs_of(r.crop.width, r.width, r.window.x, r.window.width);
  const auto [y, height] = inputs_of(r.crop.height, r.height, r.window.y, r.window.height);
  return {x, y, width, height};
}

bool columns_change(const Resampling& r) { return r.crop.width != r.width; }
bool rows_change(const Resampling& r) { return r.crop.height != r.height; }
// Pillow 13 rounds to bytes between the passes, so their order shows.
bool rows_go_first(const Resampling& r) {
  return r.crop.height - r.height > std::max(0, 2 * (r.crop.width - r.width));
}

// The needed part of a picture: rows of `width` pixels, `stride` elements apart.
template <typename T>
struct Plane {
  const T* data = nullptr;
  const T* end = nullptr;  // of the memory behind it
  std::size_t stride = 0;
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t channels = 0;
  [[nodiscard]] const T* row(std::size_t y) const { return data + y * stride; }
};

template <typename T>
Plane<T> needed_plane(const PictureRegion& source, const Rectangle& part, const Resampling& r) {
  const auto channels = static_cast<std::size_t>(source.pixels.channels);
  const auto x = static_cast<std::size_t>(r.crop.x + part.x - source.x);
  const auto y = static_cast<std::size_t>(r.crop.y + part.y - source.y);
  const T* begin = reinterpret_cast<const T*>(source.pixels.bytes.data());
  const std::size_t stride = static_cast<std::size_t>(source.pixels.width) * channels;
  return {begin + y * stride + x * channels,
          begin + source.pixels.bytes.size() / sizeof(T),
          stride,
          static_cast<std::size_t>(part.width),
          static_cast<std::size_t>(part.height),
          channels};
}

// Weights count from the first needed input.
template <typename Axis>
void shift(Axis& axis, int by) {
  for (int& first : axis.first) {
    first -= by;
  }
}

void do_columns(const Plane<std::uint8_t>& in, ByteAxis& axis, bool mirrored, std::uint8_t* out,
                std::size_t stride) {
  resize_kernels().columns({in.data, in.end, in.stride, in.height}, axis,
                           static_cast<int>(in.channels), mirrored, out, stride);
}

void do_columns(const Plane<float>& in, const FloatAxis& axis, bool mirrored, float* out,
                std::size_t stride) {
  for (std::size_t y = 0; y < in.height; ++y) {
    for (std::size_t x = 0; x < axis.size(); ++x) {
      float* to = out + y * stride + (mirrored ? axis.size() - 1 - x : x) * in.channels;
      const float* pixel = in.row(y) + static_cast<std::size_t>(axis.first[x]) * in.channels;
      for (std::size_t c = 0; c < in.channels; ++c) {
        float sum = 0;
        for (int k = 0; k < axis.used[x]; ++k) {
          sum += pixel[static_cast<std::size_t>(k) * in.channels + c] * axis.weights_of(x)[k];
        }
        to[c] = std::clamp(sum, 0.0F, 1.0F);
      }
    }
  }
}

template <typename T, typename Axis>
void do_rows(const Plane<T>& in, const Axis& axis, T* out, std::size_t stride) {
  const std::size_t length = in.width * in.channels;
  for (std::size_t y = 0; y < axis.size(); ++y) {
    const T* first = in.row(static_cast<std::size_t>(axis.first[y]));
    T* to = out + y * stride;
    if constexpr (std::is_same_v<T, std::uint8_t>) {
      resize_kernels().rows(first, in.stride, axis, y, length, to);
    } else {
      for (std::size_t i = 0; i < length; ++i) {
        T sum = 0;
        for (int k = 0; k < axis.used[y]; ++k) {
          sum += first[static_cast<std::size_t>(k) * in.stride + i] * axis.weights_of(y)[k];
        }
        to[i] = std::clamp(sum, T{0}, T{1});
      }
    }
  }
}

template <typename T>
void mirror_rows(T* out, std::size_t stride, std::size_t width, std::size_t height,
                 std::size_t channels) {
  for (std::size_t y = 0; y < height; ++y) {
    T* row = out + y * stride;
    for (std::size_t x = 0; x < width / 2; ++x) {
      std::swap_ranges(row + x * channels, row + (x + 1) * channels,
                       row + (width - 1 - x) * channels);
    }
  }
}

template <typename T>
void copy_rows(const Plane<T>& in, T* out, std::size_t stride) {
  for (std::size_t y = 0; y < in.height; ++y) {
    std::copy_n(in.row(y), in.width * in.channels, out + y * stride);
  }
}

template <typename T>
auto axes_of(ResizeScratch& scratch) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return std::tie(scratch.byte_columns, scratch.byte_rows);
  } else {
    return std::tie(scratch.float_columns, scratch.float_rows);
  }
}

template <typename T>
Plane<T> plane_in(std::span<std::uint8_t> memory, std::size_t width, std::size_t height,
                  std::size_t channels) {
  const T* data = reinterpret_cast<const T*>(memory.data());
  const std::size_t stride = width * channels;
  return {data, data + memory.size() / sizeof(T), stride, width, height, channels};
}

}  // namespace

Rectangle needed_region(const Resampling& resampling) {
  Rectangle part = needed_part(resampling);
  part.x += resampling.crop.x;
  part.y += resampling.crop.y;
  return part;
}

std::uint64_t memory_between(const Resampling& resampling, int channels, ElementType type) {
  if (!columns_change(resampling) || !rows_change(resampling)) {
    return 0;
  }
  const Rectangle part = needed_part(resampling);
  const auto area = rows_go_first(resampling)
                        ? std::uint64_t(part.width) * std::uint64_t(resampling.window.height)
                        : std::uint64_t(resampling.window.width) * std::uint64_t(part.height);
  return area * static_cast<std::uint64_t>(channels) * element_size(type);
}

template <typename T>
void resample(const PictureRegion& source, const Resampling& r, bool mirrored,
              ResizeScratch& scratch, T* out, std::size_t out_stride) {
  require(is_inside(r.window, r.width, r.height), "window outside of the resized image");
  const Rectangle part = needed_part(r);
  const Plane<T> in = needed_plane<T>(source, part, r);
  auto [columns, rows] = axes_of<T>(scratch);
  if (columns_change(r)) {
    make_axis(r.crop.width, r.width, r.window.x, r.window.width, columns);
    shift(columns, part.x);
  }
  if (rows_change(r)) {
    make_axis(r.crop.height, r.height, r.window.y, r.window.height, rows);
    shift(rows, part.y);
  }
  const auto width = static_cast<std::size_t>(r.window.width);
  const auto height = static_cast<std::size_t>(r.window.height);
  if (columns_change(r) && rows_change(r)) {
    const std::span between =
        scratch.between.take(memory_between(r, source.pixels.channels, source.pixels.element_type));
    T* memory = reinterpret_cast<T*>(between.data());
    if (rows_go_first(r)) {
      do_rows(in, rows, memory, in.width * in.channels);
      do_columns(plane_in<T>(between, in.width, height, in.channels), columns, mirrored, out,
                 out_stride);
    } else {
      do_columns(in, columns, mirrored, memory, width * in.channels);
      do_rows(plane_in<T>(between, width, in.height, in.channels), rows, out, out_stride);
    }
    return;
  }
  if (columns_change(r)) {
    do_columns(in, columns, mirrored, out, out_stride);
    return;
  }
  rows_change(r) ? do_rows(in, rows, out, out_stride) : copy_rows(in, out, out_stride);
  if (mirrored) {
    mirror_rows(out, out_stride, width, height, in.channels);
  }
}

template void resample(const PictureRegion&, const Resampling&, bool, ResizeScratch&, std::uint8_t*,
                       std::size_t);
template void resample(const PictureRegion&, const Resampling&, bool, ResizeScratch&, float*,
                       std::size_t);

}  // namespace temper
