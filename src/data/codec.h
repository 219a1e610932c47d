#pragma once
// Decoding of image files in memory, with the pixels of Pillow's convert("RGB") and convert("L").
// Errors are DataErrors that hold the reason alone; callers add the file's name.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/picture.h"
#include "temper/data/buffer.h"
#include "temper/data/image.h"

namespace temper {

struct EncodedImage;

// More pixels than this are refused before anything is allocated, as by Pillow.
inline constexpr std::uint64_t kMaxImagePixels = 178'956'970;

// Throws DataError for more than kMaxImagePixels.
void check_image_size(std::uint64_t width, std::uint64_t height);

// An image file in memory whose header has been read. Used by one thread.
class ImageDecoder {
 public:
  ImageDecoder() = default;
  virtual ~ImageDecoder() = default;
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  // In pixels, at least 1.
  [[nodiscard]] virtual int width() const = 0;
  [[nodiscard]] virtual int height() const = 0;

  // Bytes that decode() takes at most, buffer included. To be asked before it.
  [[nodiscard]] virtual std::uint64_t memory_needed(const Rectangle& region,
                                                    int channels) const = 0;

  // Decodes at least `region`, with the pixels that decoding the whole picture gives there, into
  // `buffer`. May be called once. `channels`: 1 or 3. Damage that lies behind the region need not
  // be found, a file without its end is.
  [[nodiscard]] virtual PictureRegion decode(const Rectangle& region, int channels,
                                             Buffer& buffer) = 0;
};

// The format is told by content. Throws DataError for an empty file, what is no image, too large or
// of an unsupported format. `data` must outlive the decoder.
[[nodiscard]] std::unique_ptr<ImageDecoder> open_image(std::span<const std::uint8_t> data);
[[nodiscard]] std::unique_ptr<ImageDecoder> open_image(const EncodedImage& image);
[[nodiscard]] std::unique_ptr<ImageDecoder> open_jpeg(std::span<const std::uint8_t> data);
[[nodiscard]] std::unique_ptr<ImageDecoder> open_png(std::span<const std::uint8_t> data);

// The whole picture. `channels`: 1 or 3.
[[nodiscard]] Image decode_image(std::span<const std::uint8_t> data, int channels);
[[nodiscard]] Image decode_image(const EncodedImage& image, int channels);

// "png", "jpeg", "jpeg progressive", "bmp", "webp", "tiff", "pnm", by the header.
[[nodiscard]] std::string describe_encoding(std::span<const std::uint8_t> data);
[[nodiscard]] bool is_progressive_jpeg(std::span<const std::uint8_t> data);

}  // namespace temper
