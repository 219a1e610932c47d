#include "data/convert.h"

#include <cstring>
#include <utility>

#include "temper/core/error.h"

namespace temper {
namespace {

std::uint8_t gray_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return luma(red, green, blue);
}

float gray_of(float red, float green, float blue) {
  return 0.299F * red + 0.587F * green + 0.114F * blue;
}

template <typename T>
std::vector<T> convert(const std::vector<T>& pixels, int channels) {
  std::vector<T> out;
  if (channels == 3) {
    out.resize(pixels.size() * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = pixels[i];
    }
  } else {
    out.resize(pixels.size() / 3);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = gray_of(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
    }
  }
  return out;
}

// `ink` percent of `light`, rounded as Pillow's MULDIV255.
int scale_by(int ink, int light) {
  const int product = ink * light + 128;
  return ((product >> 8) + product) >> 8;
}

template <typename T>
std::vector<T> elements_of(const ImageView& view) {
  std::vector<T> out(view.bytes.size() / sizeof(T));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

}  // namespace

Image copy_of(const ImageView& view) {
  Image image{view.height, view.width, view.channels, {}};
  if (view.element_type == ElementType::kUInt8) {
    image.pixels = elements_of<std::uint8_t>(view);
  } else {
    image.pixels = elements_of<float>(view);
  }
  return image;
}

std::vector<std::uint8_t> inverted_cmyk_to_rgb(std::span<const std::uint8_t> cmyk) {
  std::vector<std::uint8_t> rgb(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < cmyk.size() / 4; ++i) {
    const int light = cmyk[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int value = light - scale_by(255 - cmyk[4 * i + c], light);
      rgb[3 * i + c] = static_cast<std::uint8_t>(value < 0 ? 0 : value);
    }
  }
  return rgb;
}

Image with_channels(Image image, int channels) {
  require((image.channels == 1 || image.channels == 3) && (channels == 1 || channels == 3),
          "conversion from ", image.channels, " to ", channels, " channels");
  if (image.channels == channels) {
    return image;
  }
  std::visit([channels](auto& pixels) { pixels = convert(pixels, channels); }, image.pixels);
  image.channels = channels;
  return image;
}

}  // namespace temper
