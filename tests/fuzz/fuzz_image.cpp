// Any bytes give an image of the announced size or a DataError. A region has the pixels of the
// whole picture, or is refused; a whole picture that loads loads in parts, too.

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "data/codec.h"
#include "data/exif.h"
#include "temper/core/error.h"
#include "temper/data/dataset.h"

namespace {

using namespace temper;

void expect(bool condition) {
  if (!condition) {
    std::abort();
  }
}

std::optional<Image> whole_picture(const EncodedImage& file, int channels) {
  try {
    Image image = decode_image(file, channels);
    expect(image.channels == channels && image.bytes().size() == image.element_count());
    return image;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Of a huge picture the header has to do.
bool is_small(const EncodedImage& file) {
  constexpr std::int64_t kPixels = 1 << 20;
  try {
    const auto decoder = open_image(file);
    return std::int64_t{decoder->width()} * decoder->height() <= kPixels;
  } catch (const DataError&) {
    return false;
  }
}

// A place in the picture that depends on the input.
Rectangle some_region(std::span<const std::uint8_t> data, int width, int height, unsigned turn) {
  std::uint32_t hash = 2166136261U + turn;
  for (const std::uint8_t byte : data.last(std::min<std::size_t>(data.size(), 16))) {
    hash = (hash ^ byte) * 16777619U;
  }
  const auto below = [&hash](int bound) {
    hash = hash * 1664525U + 1013904223U;
    return static_cast<int>((hash >> 8) % static_cast<std::uint32_t>(bound));
  };
  Rectangle region{below(width), below(height), 0, 0};
  region.width = 1 + below(width - region.x);
  region.height = 1 + below(height - region.y);
  return region;
}

void compare_region(const EncodedImage& file, int channels, const std::optional<Image>& whole,
                    unsigned turn) {
  const auto decoder = open_image(file);
  const Rectangle region = some_region(file.bytes, decoder->width(), decoder->height(), turn);
  const std::uint64_t announced = decoder->memory_needed(region, channels);
  Buffer buffer;
  const PictureRegion part = decoder->decode(region, channels, buffer);
  const ImageView& pixels = part.pixels;
  expect(part.x <= region.x && part.y <= region.y &&
         part.x + pixels.width >= region.x + region.width &&
         part.y + pixels.height >= region.y + region.height);
  expect(buffer.capacity() <= announced);
  if (!whole) {
    return;  // the damage lies elsewhere
  }
  for (int y = region.y; y < region.y + region.height; ++y) {
    const auto stride = [&](int width) { return static_cast<std::size_t>(width * channels); };
    const auto count = stride(region.width);
    const auto* from = pixels.bytes.data() +
                       static_cast<std::size_t>(y - part.y) * stride(pixels.width) +
                       stride(region.x - part.x);
    const auto* other = whole->bytes().data() + static_cast<std::size_t>(y) * stride(whole->width) +
                        stride(region.x);
    expect(std::equal(from, from + count, other));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> input(data, size);
  for (const bool upright : {false, true}) {
    const EncodedImage file{input, upright};
    for (const int channels : {1, 3}) {
      if (!is_small(file)) {
        continue;
      }
      const std::optional<Image> whole = whole_picture(file, channels);
      for (unsigned turn = 0; turn < 2; ++turn) {
        try {
          compare_region(file, channels, whole, turn);
        } catch (const DataError&) {
          expect(!whole);
        }
      }
    }
  }
  const int orientation = exif_orientation(input);
  expect(orientation >= 1 && orientation <= 8);
  try {
    static_cast<void>(describe_encoding(input));
  } catch (const DataError&) {
  }
  return 0;
}
