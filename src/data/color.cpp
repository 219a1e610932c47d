#include "data/color.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/convert.h"

namespace temper {
namespace {

using Table = std::array<std::uint8_t, 256>;

std::uint8_t clip(double value) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(value), 0, 255));
}

// Image.blend of one value, in single precision.
std::uint8_t blend(int degenerate, int value, float factor) {
  const float mixed =
      static_cast<float>(degenerate) + factor * static_cast<float>(value - degenerate);
  if (factor >= 0 && factor <= 1) {
    return static_cast<std::uint8_t>(mixed);
  }
  return mixed <= 0 ? 0 : mixed >= 255 ? 255 : static_cast<std::uint8_t>(mixed);
}

template <typename Entry>
Table make_table(const Entry& entry) {
  Table table{};
  for (int value = 0; value < 256; ++value) {
    table[static_cast<std::size_t>(value)] = entry(value);
  }
  return table;
}

void look_up(const Pixels& pixels, const Table& table) {
  for (std::uint8_t& value : pixels.bytes) {
    value = table[value];
  }
}

using Histogram = std::array<std::int64_t, 256>;

// One table a channel, made from its histogram.
template <typename MakeTable>
void look_up_by_channel(const Pixels& pixels, const MakeTable& make) {
  const auto channels = static_cast<std::size_t>(pixels.channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    Histogram histogram{};
    for (std::size_t i = channel; i < pixels.bytes.size(); i += channels) {
      ++histogram[pixels.bytes[i]];
    }
    const Table table = make(histogram);
    for (std::size_t i = channel; i < pixels.bytes.size(); i += channels) {
      pixels.bytes[i] = table[pixels.bytes[i]];
    }
  }
}

Table identity() {
  return make_table([](int value) { return static_cast<std::uint8_t>(value); });
}

Table stretched(const Histogram& histogram) {
  const auto is_used = [](std::int64_t count) { return count != 0; };
  const auto low = std::find_if(histogram.begin(), histogram.end(), is_used) - histogram.begin();
  const auto high =
      histogram.rend() - std::find_if(histogram.rbegin(), histogram.rend(), is_used) - 1;
  if (high <= low) {
    return identity();
  }
  const double scale = 255.0 / static_cast<double>(high - low);
  const double offset = static_cast<double>(-low) * scale;
  return make_table([&](int value) { return clip(value * scale + offset); });
}

Table equalized(const Histogram& histogram) {
  std::int64_t sum = 0;
  std::int64_t last = 0;
  for (const std::int64_t count : histogram) {
    sum += count;
    last = count != 0 ? count : last;
  }
  const std::int64_t step = (sum - last) / 255;
  if (step == 0) {
    return identity();
  }
  std::int64_t below = step / 2;
  return make_table([&](int value) {
    const std::int64_t level = below / step;
    below += histogram[static_cast<std::size_t>(value)];
    return static_cast<std::uint8_t>(std::min<std::int64_t>(level, 255));
  });
}

struct Hsv {
  int hue = 0;
  int saturation = 0;
  int value = 0;
};

// The roundings between float and double are Pillow's.
Hsv to_hsv(int red, int green, int blue) {
  const int high = std::max({red, green, blue});
  const int low = std::min({red, green, blue});
  if (high == low) {
    return {0, 0, high};
  }
  const auto range = static_cast<float>(high - low);
  const float saturation = range / static_cast<float>(high);
  const float from_red = static_cast<float>(high - red) / range;
  const float from_green = static_cast<float>(high - green) / range;
  const float from_blue = static_cast<float>(high - blue) / range;
  float hue = 0;
  if (red == high) {
    hue = from_blue - from_green;
  } else if (green == high) {
    hue = static_cast<float>(2.0 + from_red - from_blue);
  } else {
    hue = static_cast<float>(4.0 + from_green - from_red);
  }
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  return {clip(hue * 255.0), clip(saturation * 255.0), high};
}

void from_hsv(const Hsv& hsv, std::uint8_t* rgb) {
  const auto value = static_cast<std::uint8_t>(hsv.value);
  if (hsv.saturation == 0) {
    std::fill_n(rgb, 3, value);
    return;
  }
  const double sixth = static_cast<float>(hsv.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(sixth));
  const auto rest = static_cast<float>(sixth - static_cast<float>(sector));
  const auto saturation = static_cast<float>(static_cast<float>(hsv.saturation) / 255.0);
  const auto level = static_cast<float>(hsv.value);
  const std::uint8_t low = clip(std::round(level * (1.0 - saturation)));
  const std::uint8_t falling =
      clip(std::round(level * (1.0 - static_cast<double>(saturation * rest))));
  const std::uint8_t rising = clip(std::round(level * (1.0 - saturation * (1.0 - rest))));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors = {{{value, rising, low},
                                                               {falling, value, low},
                                                               {low, value, rising},
                                                               {low, falling, value},
                                                               {rising, low, value},
                                                               {value, low, falling}}};
  const auto& color = sectors[static_cast<std::size_t>(sector % 6)];
  std::copy(color.begin(), color.end(), rgb);
}

// Copies one source pixel, if it is there.
class Sampler {
 public:
  Sampler(const Pixels& pixels, std::uint8_t fill)
      : pixels_(pixels), source_(pixels.bytes.begin(), pixels.bytes.end()) {
    std::fill(pixels.bytes.begin(), pixels.bytes.end(), fill);
  }
  void put(int x, int y, int from_x, int from_y) const {
    if (from_x >= 0 && from_x < pixels_.width && from_y >= 0 && from_y < pixels_.height) {
      std::copy_n(source_.data() + offset(from_x, from_y), pixels_.channels,
                  pixels_.bytes.data() + offset(x, y));
    }
  }

 private:
  [[nodiscard]] std::ptrdiff_t offset(int x, int y) const {
    return (std::ptrdiff_t{y} * pixels_.width + x) * pixels_.channels;
  }

  const Pixels& pixels_;
  std::vector<std::uint8_t> source_;
};

// Without shear: Pillow adds up the coordinates in double precision.
void scale_nearest(const Pixels& pixels, const std::array<double, 6>& m, std::uint8_t fill) {
  const auto whole = [](double value) { return value < 0 ? -1 : static_cast<int>(value); };
  const Sampler sampler(pixels, fill);
  double from_y = m[5] + m[4] * 0.5;
  for (int y = 0; y < pixels.height; ++y, from_y += m[4]) {
    double from_x = m[2] + m[0] * 0.5;
    for (int x = 0; x < pixels.width; ++x, from_x += m[0]) {
      sampler.put(x, y, whole(from_x), whole(from_y));
    }
  }
}

// Pillow's 16.16 fixed-point coordinates; in 64 bits, so that no size overflows.
void affine_nearest(const Pixels& pixels, const std::array<double, 6>& m, std::uint8_t fill) {
  const auto fixed = [](double value) {
    return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
  };
  const auto m0 = fixed(m[0]);
  const auto m1 = fixed(m[1]);
  const auto m3 = fixed(m[3]);
  const auto m4 = fixed(m[4]);
  std::int64_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  std::int64_t row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  const Sampler sampler(pixels, fill);
  for (int y = 0; y < pixels.height; ++y, row_x += m1, row_y += m4) {
    std::int64_t from_x = row_x;
    std::int64_t from_y = row_y;
    for (int x = 0; x < pixels.width; ++x, from_x += m0, from_y += m3) {
      sampler.put(x, y, static_cast<int>(from_x >> 16), static_cast<int>(from_y >> 16));
    }
  }
}

// The sum of a 3 x 3 neighbourhood in which the middle counts five times, over 13, rounded.
std::uint8_t smooth(const std::uint8_t* middle, std::ptrdiff_t stride, std::ptrdiff_t channels) {
  int sum = 4 * *middle;
  for (const std::ptrdiff_t row : {-stride, std::ptrdiff_t{0}, stride}) {
    sum += middle[row - channels] + middle[row] + middle[row + channels];
  }
  return static_cast<std::uint8_t>((2 * sum + 13) / 26);
}

}  // namespace

void adjust_brightness(const Pixels& pixels, double factor) {
  const auto alpha = static_cast<float>(factor);
  look_up(pixels, make_table([&](int value) { return blend(0, value, alpha); }));
}

void adjust_contrast(const Pixels& pixels, double factor) {
  std::uint64_t sum = 0;
  const auto channels = static_cast<std::size_t>(pixels.channels);
  for (std::size_t i = 0; i < pixels.bytes.size(); i += channels) {
    const auto* pixel = &pixels.bytes[i];
    sum += channels == 1 ? pixel[0] : luma(pixel[0], pixel[1], pixel[2]);
  }
  const double count = static_cast<double>(pixels.bytes.size() / channels);
  const int mean = static_cast<int>(static_cast<double>(sum) / count + 0.5);
  const auto alpha = static_cast<float>(factor);
  look_up(pixels, make_table([&](int value) { return blend(mean, value, alpha); }));
}

void adjust_saturation(const Pixels& pixels, double factor) {
  const auto alpha = static_cast<float>(factor);
  for (std::size_t i = 0; pixels.channels == 3 && i < pixels.bytes.size(); i += 3) {
    std::uint8_t* pixel = &pixels.bytes[i];
    const int gray = luma(pixel[0], pixel[1], pixel[2]);
    for (int c = 0; c < 3; ++c) {
      pixel[c] = blend(gray, pixel[c], alpha);
    }
  }
}

void adjust_sharpness(const Pixels& pixels, double factor) {
  const auto alpha = static_cast<float>(factor);
  const std::vector<std::uint8_t> source(pixels.bytes.begin(), pixels.bytes.end());
  const std::ptrdiff_t channels = pixels.channels;
  const std::ptrdiff_t stride = pixels.width * channels;
  // The outermost pixels have no neighbourhood and stay.
  for (std::ptrdiff_t y = 1; y < pixels.height - 1; ++y) {
    for (std::ptrdiff_t i = y * stride + channels; i < (y + 1) * stride - channels; ++i) {
      const std::uint8_t* middle = source.data() + i;
      pixels.bytes[static_cast<std::size_t>(i)] =
          blend(smooth(middle, stride, channels), *middle, alpha);
    }
  }
}

void adjust_hue(const Pixels& pixels, double shift) {
  const int turn = static_cast<int>(shift * 255);
  for (std::size_t i = 0; pixels.channels == 3 && i < pixels.bytes.size(); i += 3) {
    std::uint8_t* pixel = &pixels.bytes[i];
    Hsv hsv = to_hsv(pixel[0], pixel[1], pixel[2]);
    hsv.hue = (hsv.hue + turn) & 255;
    from_hsv(hsv, pixel);
  }
}

void posterize(const Pixels& pixels, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  look_up(pixels, make_table([&](int value) { return static_cast<std::uint8_t>(value & mask); }));
}

void solarize(const Pixels& pixels, double threshold) {
  look_up(pixels, make_table([&](int value) {
            return static_cast<std::uint8_t>(value < threshold ? value : 255 - value);
          }));
}

void auto_contrast(const Pixels& pixels) { look_up_by_channel(pixels, stretched); }

void equalize(const Pixels& pixels) { look_up_by_channel(pixels, equalized); }

void make_gray(const Pixels& pixels) {
  for (std::size_t i = 0; pixels.channels == 3 && i < pixels.bytes.size(); i += 3) {
    std::uint8_t* pixel = &pixels.bytes[i];
    std::fill_n(pixel, 3, luma(pixel[0], pixel[1], pixel[2]));
  }
}

void transform_affine(const Pixels& pixels, const std::array<double, 6>& matrix,
                      std::uint8_t fill) {
  if (matrix[1] == 0 && matrix[3] == 0) {
    scale_nearest(pixels, matrix, fill);
  } else {
    affine_nearest(pixels, matrix, fill);
  }
}

void rotate(const Pixels& pixels, double degrees, std::uint8_t fill) {
  double turn = std::fmod(degrees, 360.0);
  turn += turn < 0 ? 360.0 : 0.0;
  const double angle = -(turn * (M_PI / 180.0));
  // To 15 decimals, so that right angles are exact.
  const double cosine = std::nearbyint(std::cos(angle) * 1e15) / 1e15;
  const double sine = std::nearbyint(std::sin(angle) * 1e15) / 1e15;
  const double center_x = pixels.width / 2.0;
  const double center_y = pixels.height / 2.0;
  const double left = cosine * -center_x + sine * -center_y + 0.0 + center_x;
  const double top = -sine * -center_x + cosine * -center_y + 0.0 + center_y;
  transform_affine(pixels, {cosine, sine, left, -sine, cosine, top}, fill);
}

}  // namespace temper
