#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;  // Pillow's: 8-bit samples, two bits of head room

// For outputs begin ... begin + count - 1 of one axis: the first input sample and its weights.
template <typename Weight>
struct Axis {
  std::size_t taps = 0;  // weights reserved for each output
  std::vector<int> first;
  std::vector<int> used;
  std::vector<Weight> weights;

  [[nodiscard]] std::size_t size() const { return first.size(); }
  [[nodiscard]] const Weight* weights_of(std::size_t output) const {
    return weights.data() + output * taps;
  }
};

void set_weight(float& out, double weight) { out = static_cast<float>(weight); }
void set_weight(std::int32_t& out, double weight) {
  out = static_cast<std::int32_t>(0.5 + weight * (1 << kPrecisionBits));
}

// The order of operations is Pillow's: a different rounding would show in the pixels.
template <typename Weight>
Axis<Weight> make_axis(int in_size, int out_size, int begin, int count) {
  const double scale = static_cast<double>(in_size) / out_size;
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter_scale;
  Axis<Weight> axis;
  axis.taps = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  axis.weights.resize(axis.taps * static_cast<std::size_t>(count));
  std::vector<double> raw(axis.taps);
  for (int i = 0; i < count; ++i) {
    const double center = (begin + i + 0.5) * scale;
    const double inverse = 1.0 / filter_scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int used = std::min(in_size, static_cast<int>(center + support + 0.5)) - first;
    double sum = 0;
    for (int x = 0; x < used; ++x) {
      const double distance = std::abs((x + first - center + 0.5) * inverse);
      raw[static_cast<std::size_t>(x)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += raw[static_cast<std::size_t>(x)];
    }
    Weight* out = axis.weights.data() + static_cast<std::size_t>(i) * axis.taps;
    for (int x = 0; x < used; ++x) {
      const double weight = raw[static_cast<std::size_t>(x)];
      set_weight(out[x], sum != 0.0 ? weight / sum : weight);
    }
    axis.first.push_back(first);
    axis.used.push_back(used);
  }
  return axis;
}

template <typename T>
struct Traits;
template <>
struct Traits<std::uint8_t> {
  using Weight = std::int32_t;
  using Sum = std::int32_t;
  static constexpr Sum kStart = 1 << (kPrecisionBits - 1);
  static std::uint8_t finish(Sum sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
  }
};
template <>
struct Traits<float> {
  using Weight = float;
  using Sum = float;
  static constexpr Sum kStart = 0;
  static float finish(Sum sum) { return std::clamp(sum, 0.0F, 1.0F); }
};

// A part of an image: rows of `width` pixels, `stride` elements apart.
template <typename T>
struct Plane {
  const T* data = nullptr;
  std::size_t stride = 0;
  int width = 0;
  int height = 0;
};

template <typename T, int Channels>
void resize_row(const T* in, const Axis<typename Traits<T>::Weight>& axis, T* out) {
  using Sum = typename Traits<T>::Sum;
  for (std::size_t x = 0; x < axis.size(); ++x) {
    const auto* weights = axis.weights_of(x);
    const T* pixel = in + static_cast<std::size_t>(axis.first[x]) * Channels;
    Sum sums[Channels];
    std::fill_n(sums, Channels, Traits<T>::kStart);
    for (int k = 0; k < axis.used[x]; ++k, pixel += Channels) {
      for (int c = 0; c < Channels; ++c) {
        sums[c] += static_cast<Sum>(pixel[c]) * weights[k];
      }
    }
    for (int c = 0; c < Channels; ++c) {
      *out++ = Traits<T>::finish(sums[c]);
    }
  }
}

template <typename T>
std::vector<T> resize_columns(const Plane<T>& in, int channels,
                              const Axis<typename Traits<T>::Weight>& axis) {
  const std::size_t out_stride = axis.size() * static_cast<std::size_t>(channels);
  std::vector<T> out(out_stride * static_cast<std::size_t>(in.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(in.height); ++y) {
    const T* row = in.data + y * in.stride;
    if (channels == 1) {
      resize_row<T, 1>(row, axis, out.data() + y * out_stride);
    } else {
      resize_row<T, 3>(row, axis, out.data() + y * out_stride);
    }
  }
  return out;
}

template <typename T>
std::vector<T> resize_rows(const Plane<T>& in, int channels,
                           const Axis<typename Traits<T>::Weight>& axis) {
  using Sum = typename Traits<T>::Sum;
  const std::size_t length =
      static_cast<std::size_t>(in.width) * static_cast<std::size_t>(channels);
  std::vector<T> out(length * axis.size());
  std::vector<Sum> sums(length);
  for (std::size_t y = 0; y < axis.size(); ++y) {
    std::fill(sums.begin(), sums.end(), Traits<T>::kStart);
    for (int k = 0; k < axis.used[y]; ++k) {
      const T* row = in.data + static_cast<std::size_t>(axis.first[y] + k) * in.stride;
      const auto weight = axis.weights_of(y)[k];
      for (std::size_t i = 0; i < length; ++i) {
        sums[i] += static_cast<Sum>(row[i]) * weight;
      }
    }
    std::transform(sums.begin(), sums.end(), out.begin() + static_cast<std::ptrdiff_t>(y * length),
                   Traits<T>::finish);
  }
  return out;
}

// The input samples that an axis reads: [begin, end).
template <typename Weight>
std::pair<int, int> range_of(const Axis<Weight>& axis) {
  return {axis.first.front(), axis.first.back() + axis.used.back()};
}

template <typename T>
Plane<T> whole(const std::vector<T>& pixels, int width, int height, int channels) {
  return {pixels.data(), static_cast<std::size_t>(width) * static_cast<std::size_t>(channels),
          width, height};
}

template <typename T>
std::vector<T> copy_window(const Plane<T>& in, int channels, const Rectangle& window) {
  const std::size_t begin = static_cast<std::size_t>(window.x) * static_cast<std::size_t>(channels);
  const std::size_t length =
      static_cast<std::size_t>(window.width) * static_cast<std::size_t>(channels);
  std::vector<T> out;
  out.reserve(length * static_cast<std::size_t>(window.height));
  for (int y = 0; y < window.height; ++y) {
    const T* row = in.data + static_cast<std::size_t>(window.y + y) * in.stride + begin;
    out.insert(out.end(), row, row + length);
  }
  return out;
}

template <typename T>
std::vector<T> resize_plane(Plane<T> in, int channels, int width, int height,
                            const Rectangle& window) {
  using Weight = typename Traits<T>::Weight;
  const bool columns = width != in.width;
  const bool rows = height != in.height;
  if (!columns && !rows) {
    return copy_window(in, channels, window);
  }
  // A pass that is left out still has to cut out its part of the window.
  const auto x_axis = make_axis<Weight>(in.width, width, window.x, window.width);
  const auto y_axis = make_axis<Weight>(in.height, height, window.y, window.height);
  const auto cut_columns = [&](Plane<T>& plane, int begin, int count) {
    plane.data += static_cast<std::size_t>(begin) * static_cast<std::size_t>(channels);
    plane.width = count;
  };
  const auto cut_rows = [&](Plane<T>& plane, int begin, int count) {
    plane.data += static_cast<std::size_t>(begin) * plane.stride;
    plane.height = count;
  };
  if (!rows) {
    cut_rows(in, window.y, window.height);
    return resize_columns(in, channels, x_axis);
  }
  if (!columns) {
    cut_columns(in, window.x, window.width);
    return resize_rows(in, channels, y_axis);
  }
  // Pillow 13 rounds to bytes between the passes, so their order shows.
  const bool rows_first = in.height - height > std::max(0, 2 * (in.width - width));
  if (rows_first) {
    const auto [begin, end] = range_of(x_axis);
    cut_columns(in, begin, end - begin);
    const std::vector<T> between = resize_rows(in, channels, y_axis);
    Plane<T> plane = whole(between, end - begin, window.height, channels);
    auto shifted = x_axis;
    std::for_each(shifted.first.begin(), shifted.first.end(), [&](int& first) { first -= begin; });
    return resize_columns(plane, channels, shifted);
  }
  const auto [begin, end] = range_of(y_axis);
  cut_rows(in, begin, end - begin);
  const std::vector<T> between = resize_columns(in, channels, x_axis);
  Plane<T> plane = whole(between, window.width, end - begin, channels);
  auto shifted = y_axis;
  std::for_each(shifted.first.begin(), shifted.first.end(), [&](int& first) { first -= begin; });
  return resize_rows(plane, channels, shifted);
}

bool is_inside(const Rectangle& part, int width, int height) {
  return part.x >= 0 && part.y >= 0 && part.width > 0 && part.height > 0 &&
         part.x <= width - part.width && part.y <= height - part.height;
}

}  // namespace

Image resize_crop(const Image& source, const Rectangle& crop, int width, int height,
                  const Rectangle& window) {
  require(is_inside(crop, source.width, source.height), "crop outside of the image");
  require(is_inside(window, width, height), "window outside of the resized image");
  require(source.channels == 1 || source.channels == 3, "resize of ", source.channels, " channels");
  Image out{window.height, window.width, source.channels, {}};
  const auto channels = static_cast<std::size_t>(source.channels);
  const std::size_t stride = static_cast<std::size_t>(source.width) * channels;
  const std::size_t offset =
      static_cast<std::size_t>(crop.y) * stride + static_cast<std::size_t>(crop.x) * channels;
  std::visit(
      [&](const auto& pixels) {
        using T = typename std::decay_t<decltype(pixels)>::value_type;
        const Plane<T> plane{pixels.data() + offset, stride, crop.width, crop.height};
        out.pixels = resize_plane(plane, source.channels, width, height, window);
      },
      source.pixels);
  return out;
}

}  // namespace temper
