// A decoded region has the pixels of the whole picture, whatever the file looks like.

#include <gtest/gtest.h>

#include "data/codec.h"
#include "data/convert.h"
#include "temper/core/error.h"
#include "temper/core/random.h"
#include "unit/data/jpeg_files.h"

namespace temper {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::vector<std::uint8_t> cut(const ImageView& view, const Rectangle& part) {
  std::vector<std::uint8_t> out;
  for (int y = 0; y < part.height; ++y) {
    const auto begin =
        static_cast<std::size_t>(((part.y + y) * view.width + part.x) * view.channels);
    const auto row =
        view.bytes.subspan(begin, static_cast<std::size_t>(part.width * view.channels));
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

void expect_region(const std::string& file, const Image& whole, const Rectangle& region,
                   int channels) {
  const auto decoder = open_image(bytes_of(file));
  const std::uint64_t most = decoder->memory_needed(region, channels);
  Buffer buffer;
  const PictureRegion part = decoder->decode(region, channels, buffer);
  ASSERT_LE(part.x, region.x);
  ASSERT_LE(part.y, region.y);
  ASSERT_GE(part.x + part.pixels.width, region.x + region.width);
  ASSERT_GE(part.y + part.pixels.height, region.y + region.height);
  ASSERT_LE(buffer.capacity(), most);
  ASSERT_EQ(cut(part.pixels, {region.x - part.x, region.y - part.y, region.width, region.height}),
            cut(view_of(whole), region))
      << region.x << ", " << region.y << ", " << region.width << " x " << region.height << " of "
      << whole.width << " x " << whole.height;
}

struct Size {
  int height, width;
};

class JpegRegion : public testing::TestWithParam<Size> {};

TEST_P(JpegRegion, HasThePixelsOfTheWhole) {
  const auto [height, width] = GetParam();
  SampleRandom random({.seed = 4, .purpose = Purpose::kAugmentation}, 0);
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
  };
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}}) {
    for (const bool progressive : {false, true}) {
      for (const int restart_rows : {0, 1}) {
        for (const int channels : {1, 3}) {
          const std::string file =
              jpeg_file(photo_like(height, width, channels), {.horizontal = h,
                                                              .vertical = v,
                                                              .progressive = progressive,
                                                              .restart_rows = restart_rows});
          const int wanted = below(2) == 0 ? 1 : 3;
          const Image whole = decode_image(bytes_of(file), wanted);
          for (int i = 0; i < 12; ++i) {
            Rectangle region;
            region.width = 1 + below(width);
            region.height = 1 + below(height);
            region.x = below(width - region.width + 1);
            region.y = below(height - region.height + 1);
            ASSERT_NO_FATAL_FAILURE(expect_region(file, whole, region, wanted))
                << h << "x" << v << (progressive ? " progressive" : "") << " restart "
                << restart_rows << ", " << channels << " components as " << wanted;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, JpegRegion,
                         testing::Values(Size{1, 1}, Size{3, 200}, Size{200, 3}, Size{31, 33},
                                         Size{64, 64}, Size{97, 131}, Size{150, 259}),
                         [](const auto& size) {
                           return std::to_string(size.param.height) + "x" +
                                  std::to_string(size.param.width);
                         });

// Damage behind the region may go unseen, a missing end may not.
TEST(JpegRegion, AFileWithoutItsEndIsRefusedWhateverIsWanted) {
  const std::string file = jpeg_file(photo_like(200, 200, 3));
  const Rectangle top{0, 0, 50, 8};
  const auto decode = [&](const std::string& content) {
    Buffer buffer;
    (void)open_image(bytes_of(content))->decode(top, 3, buffer);
  };
  EXPECT_NO_THROW(decode(file));
  EXPECT_NO_THROW(decode(file + "bytes behind the end"));
  EXPECT_THROW(decode(file.substr(0, file.size() - 2)), DataError);
  EXPECT_THROW(decode(file.substr(0, file.size() / 2)), DataError);
}

}  // namespace
}  // namespace temper
