// The vectorised passes of the resize against the plain ones, and regions against whole pictures;
// interop.pixels compares with Pillow.

#include "data/resize.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/codec.h"
#include "data/convert.h"
#include "temper/core/random.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

// Weights of `taps` random parts that add up to one.
ByteAxis random_axis(std::size_t outputs, int inputs, int used, SampleRandom& random) {
  ByteAxis axis;
  axis.taps = (static_cast<std::size_t>(used) + 3) / 4 * 4;
  axis.weights.assign(axis.taps * outputs, 0);
  for (std::size_t i = 0; i < outputs; ++i) {
    axis.first.push_back(
        static_cast<int>(random.below(static_cast<std::uint64_t>(inputs - used + 1))));
    axis.used.push_back(used);
    std::int32_t rest = 1 << kResizeBits;
    for (int k = 0; k < used; ++k) {
      const auto weight =
          k + 1 == used
              ? rest
              : static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(rest) + 1));
      axis.weights[i * axis.taps + static_cast<std::size_t>(k)] = weight;
      rest -= weight;
    }
  }
  for (const std::int32_t weight : axis.weights) {
    axis.high.push_back(static_cast<std::int16_t>(weight >> kResizeLowBits));
    axis.low.push_back(static_cast<std::int16_t>(weight & ((1 << kResizeLowBits) - 1)));
  }
  return axis;
}

std::vector<std::uint8_t> random_bytes(std::size_t count, SampleRandom& random) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) {
    const std::uint32_t word = random.word();
    byte = word % 4 == 0 ? 255 : static_cast<std::uint8_t>(word >> 24);
  }
  return bytes;
}

TEST(ResizeKernels, VectorisedOnesEqualThePlainOnes) {
  SampleRandom random({.seed = 1, .purpose = Purpose::kAugmentation}, 0);
  for (const int channels : {1, 3}) {
    for (const int inputs : {1, 2, 5, 6, 17, 40}) {
      for (int used = 1; used <= std::min(inputs, 11); ++used) {
        ByteAxis axis = random_axis(13, inputs, used, random);
        // Nothing lies behind the last row.
        constexpr std::size_t kRows = 11;
        const auto stride = static_cast<std::size_t>(inputs * channels);
        const auto rows = random_bytes(kRows * stride, random);
        const ByteRows in{rows.data(), rows.data() + rows.size(), stride, kRows};
        for (const bool mirrored : {false, true}) {
          // Gaps between the rows of the result stay as they are.
          const std::size_t out_stride = axis.size() * static_cast<std::size_t>(channels) + 5;
          std::vector<std::uint8_t> plain(kRows * out_stride, 7);
          std::vector<std::uint8_t> fast(plain);
          plain_resize_kernels().columns(in, axis, channels, mirrored, plain.data(), out_stride);
          resize_kernels().columns(in, axis, channels, mirrored, fast.data(), out_stride);
          ASSERT_EQ(fast, plain) << channels << " channels, " << inputs << " inputs, " << used;
        }
      }
    }
  }
}

TEST(ResizeKernels, RowsLikewise) {
  SampleRandom random({.seed = 2, .purpose = Purpose::kAugmentation}, 0);
  for (const std::size_t length : {1U, 3U, 15U, 16U, 17U, 33U, 700U}) {
    for (int used = 1; used <= 9; ++used) {
      const ByteAxis axis = random_axis(3, used, used, random);
      const auto rows = random_bytes(length * static_cast<std::size_t>(used), random);
      std::vector<std::uint8_t> plain(length), fast(length);
      plain_resize_kernels().rows(rows.data(), length, axis, 1, length, plain.data());
      resize_kernels().rows(rows.data(), length, axis, 1, length, fast.data());
      ASSERT_EQ(fast, plain) << length << " bytes, " << used << " rows";
    }
  }
}

// Every region of what is needed gives the pixels that the whole picture gives.
TEST(Resample, ARegionIsEnough) {
  const Image image = pattern_image(61, 47, 3, 3);
  SampleRandom random({.seed = 3, .purpose = Purpose::kAugmentation}, 0);
  ResizeScratch scratch;
  for (int i = 0; i < 200; ++i) {
    const auto below = [&](int bound) {
      return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
    };
    Resampling r;
    r.crop.width = 1 + below(image.width);
    r.crop.height = 1 + below(image.height);
    r.crop.x = below(image.width - r.crop.width + 1);
    r.crop.y = below(image.height - r.crop.height + 1);
    r.width = i % 5 == 0 ? r.crop.width : 1 + below(70);
    r.height = i % 7 == 0 ? r.crop.height : 1 + below(70);
    r.window.width = 1 + below(r.width);
    r.window.height = 1 + below(r.height);
    r.window.x = below(r.width - r.window.width + 1);
    r.window.y = below(r.height - r.window.height + 1);
    const Rectangle region = needed_region(r);
    ASSERT_TRUE(is_inside(region, image.width, image.height));
    Image part{region.height, region.width, 3, {}};
    std::vector<std::uint8_t> pixels;
    for (int y = 0; y < region.height; ++y) {
      const auto begin = image.bytes().begin() + ((region.y + y) * image.width + region.x) * 3;
      pixels.insert(pixels.end(), begin, begin + region.width * 3);
    }
    part.pixels = std::move(pixels);
    const std::size_t stride = static_cast<std::size_t>(r.window.width) * 3;
    std::vector<std::uint8_t> whole(stride * static_cast<std::size_t>(r.window.height));
    std::vector<std::uint8_t> of_part(whole.size());
    resample({view_of(image), 0, 0}, r, i % 2 == 0, scratch, whole.data(), stride);
    resample({view_of(part), region.x, region.y}, r, i % 2 == 0, scratch, of_part.data(), stride);
    ASSERT_EQ(of_part, whole) << i;
  }
}

}  // namespace
}  // namespace temper
