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

void inverted_cmyk_to_rgb(std::uint8_t* pixels, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const int light = pixels[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int value = light - scale_by(255 - pixels[4 * i + c], light);
      pixels[3 * i + c] = static_cast<std::uint8_t>(value < 0 ? 0 : value);
    }
  }
}

void convert_channels(std::uint8_t* pixels, std::size_t count, int from, int to) {
  if (from == 3 && to == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      pixels[i] = gray_of(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
    }
  } else if (from == 1 && to == 3) {
    for (std::size_t i = count; i-- > 0;) {
      pixels[3 * i] = pixels[3 * i + 1] = pixels[3 * i + 2] = pixels[i];
    }
  }
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
