// Orientation on the way from a file to a batch; interop.pixels compares all orientations with
// Pillow's.

#include "data/exif.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

#include "support/scratch_folder.h"
#include "temper/data/loader.h"
#include "temper/data/open_dataset.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string out = little_endian(value, 4);
  std::reverse(out.begin(), out.end());
  return out;
}

// Puts EXIF data with an orientation behind the header of a PNG file.
void add_orientation(const std::filesystem::path& path, char orientation) {
  std::ifstream in(path, std::ios::binary);
  std::string png{std::istreambuf_iterator<char>(in), {}};
  std::string exif = "eXIfMM";
  exif += std::string("\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 17);
  exif += orientation;
  exif += std::string(6, '\0');
  const auto checksum = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(exif.data()), exif.size()));
  constexpr std::size_t kHeader = 33;
  png.insert(kHeader,
             big_endian(static_cast<std::uint32_t>(exif.size() - 4)) + exif + big_endian(checksum));
  write_bytes(path, png);
}

TEST(ExifOrientation, IsAppliedByDatasetAndLoaderWhenAskedFor) {
  const ScratchFolder folder;
  const Image image = pattern_image(5, 8, 3);
  write_png(folder / "a" / "x.png", image);
  constexpr char kHalfTurn = 3;
  add_orientation(folder / "a" / "x.png", kHalfTurn);

  Image turned = image;
  auto& pixels = std::get<0>(turned.pixels);
  std::reverse(pixels.begin(), pixels.end());
  for (std::size_t i = 0; i < pixels.size(); i += 3) {
    std::swap(pixels[i], pixels[i + 2]);
  }
  for (const bool upright : {false, true}) {
    const auto dataset = open_dataset({.path = folder.path().string(), .upright = upright});
    const Image& expected = upright ? turned : image;
    EXPECT_EQ(dataset->load(0), expected);

    const Transform crop({CenterCrop{4}});
    Loader loader(*dataset, crop, {.cache = true, .image_size = 4});
    SampleRandom unused(RandomStream{}, 0);
    const std::vector<std::uint8_t> wanted = crop.apply(expected, unused).bytes();
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      loader.start(epoch, {{0}});
      const HostBatch batch = loader.next();
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(batch.pixels.data());
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), bytes, bytes + batch.pixels.size()))
          << "upright " << upright << ", epoch " << epoch;
    }
  }
}

TEST(ExifOrientation, NonsenseIsUpright) {
  const auto orientation = [](const std::string& text) {
    return exif_orientation({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  const std::string start = "\xff\xd8\xff\xe1";
  EXPECT_EQ(orientation(""), 1);
  EXPECT_EQ(orientation(start), 1);
  EXPECT_EQ(orientation(start + std::string("\0\x02", 2)), 1);
  EXPECT_EQ(orientation(start + std::string("\0\x10"
                                            "Exif\0\0MM\0*\xff\xff\xff\xff",
                                            16)),
            1);
  EXPECT_EQ(orientation(start + std::string("\0\0\0\0\0\0", 6)), 1);
}

}  // namespace
}  // namespace temper
