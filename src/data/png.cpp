#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include "data/codec.h"
#include "data/convert.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::size_t kHeaderEnd = 24;  // signature, length and type of IHDR, width, height

std::uint32_t big_endian(std::span<const std::uint8_t> data, std::size_t offset) {
  return std::uint32_t{data[offset]} << 24 | std::uint32_t{data[offset + 1]} << 16 |
         std::uint32_t{data[offset + 2]} << 8 | data[offset + 3];
}

struct Source {
  std::span<const std::uint8_t> rest;
  std::jmp_buf escape{};
  char message[128] = "";
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  Source& source = *static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source.message, text, sizeof(source.message) - 1);
  std::longjmp(source.escape, 1);
}

void on_warning(png_structp, png_const_charp) {}  // about metadata that is not used

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  Source& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (count > source.rest.size()) {
    std::strcpy(source.message, "truncated: the PNG file ends before its end chunk");
    std::longjmp(source.escape, 1);
  }
  std::memcpy(out, source.rest.data(), count);
  source.rest = source.rest.subspan(count);
}

// Whether the compressed data that is there cannot be inflated: then the file is not merely short.
bool has_damaged_data(std::span<const std::uint8_t> file) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kAround = 12;  // length, type and checksum of a chunk
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) {
    throw std::bad_alloc();
  }
  std::array<std::uint8_t, 4096> scrap{};
  int status = Z_OK;
  for (std::size_t at = kSignature; at + kAround <= file.size();) {
    const std::size_t length =
        std::min<std::size_t>(big_endian(file, at), file.size() - at - kAround);
    if (std::memcmp(&file[at + 4], "IDAT", 4) == 0) {
      stream.next_in = const_cast<Bytef*>(&file[at + 8]);
      stream.avail_in = static_cast<uInt>(length);
      while (stream.avail_in > 0 && status == Z_OK) {
        stream.next_out = scrap.data();
        stream.avail_out = static_cast<uInt>(scrap.size());
        status = inflate(&stream, Z_NO_FLUSH);
      }
    }
    at += length + kAround;
  }
  inflateEnd(&stream);
  return status == Z_DATA_ERROR;
}

struct Layout {
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int channels = 0;
  bool deep_gray = false;  // two bytes a pixel

  [[nodiscard]] int pixel_bytes() const { return deep_gray ? 2 : channels; }
};

// The functions with setjmp hold no object with a destructor, so that the jump skips none.
bool read_layout(png_structp png, png_infop info, Source& source, Layout& layout) {
  if (setjmp(source.escape) != 0) {
    return false;
  }
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(png, &source, read_bytes);
  png_read_info(png, info);
  const int color = png_get_color_type(png, info);
  const int depth = png_get_bit_depth(png, info);
  layout.deep_gray = color == PNG_COLOR_TYPE_GRAY && depth == 16;
  if (color == PNG_COLOR_TYPE_PALETTE) {
    png_set_palette_to_rgb(png);
  } else if (color == PNG_COLOR_TYPE_GRAY && depth < 8) {
    png_set_expand_gray_1_2_4_to_8(png);
  }
  if (!layout.deep_gray) {
    png_set_strip_16(png);
  }
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  layout.width = png_get_image_width(png, info);
  layout.height = png_get_image_height(png, info);
  layout.channels = png_get_channels(png, info);
  return true;
}

bool read_rows(png_structp png, Source& source, png_bytepp rows) {
  if (setjmp(source.escape) != 0) {
    return false;
  }
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

// Rows come from the top and may be interlaced: always the whole picture.
class PngDecoder final : public ImageDecoder {
 public:
  explicit PngDecoder(std::span<const std::uint8_t> data) : file_(data), source_{data} {
    if (data.size() < kHeaderEnd) {
      throw DataError("truncated: the PNG file ends inside its header");
    }
    check_image_size(big_endian(data, 16), big_endian(data, 20));
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    if (!read_layout(png_, info_, source_, layout_)) {
      const DataError error = failure();
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw error;
    }
  }
  ~PngDecoder() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  int width() const override { return static_cast<int>(layout_.width); }
  int height() const override { return static_cast<int>(layout_.height); }
  std::uint64_t memory_needed(const Rectangle&, int channels) const override {
    return pixel_count() * static_cast<std::uint64_t>(std::max(layout_.pixel_bytes(), channels)) +
           layout_.height * sizeof(png_bytep);
  }

  PictureRegion decode(const Rectangle&, int channels, Buffer& buffer) override {
    const std::span out = buffer.take(
        pixel_count() * static_cast<std::size_t>(std::max(layout_.pixel_bytes(), channels)));
    std::vector<png_bytep> rows(layout_.height);
    const std::size_t stride =
        std::size_t{layout_.width} * static_cast<std::size_t>(layout_.pixel_bytes());
    for (std::size_t y = 0; y < rows.size(); ++y) {
      rows[y] = out.data() + y * stride;
    }
    if (!read_rows(png_, source_, rows.data())) {
      throw failure();
    }
    // Pillow clips these samples and keeps the high byte of all others.
    for (std::size_t i = 0; layout_.deep_gray && i < pixel_count(); ++i) {
      out[i] = out[2 * i] != 0 ? std::uint8_t{255} : out[2 * i + 1];
    }
    convert_channels(out.data(), pixel_count(), layout_.channels, channels);
    return {{height(), width(), channels, ElementType::kUInt8,
             out.first(pixel_count() * static_cast<std::size_t>(channels))},
            0,
            0};
  }

 private:
  [[nodiscard]] std::size_t pixel_count() const {
    return std::size_t{layout_.width} * layout_.height;
  }

  [[nodiscard]] DataError failure() const {
    const std::string_view message = source_.message;
    if (!message.starts_with("truncated")) {
      return DataError(concat("corrupt PNG: ", message));
    }
    return DataError(has_damaged_data(file_) ? "corrupt PNG: the compressed data is damaged"
                                             : std::string(message));
  }

  std::span<const std::uint8_t> file_;
  Source source_;
  Layout layout_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::unique_ptr<ImageDecoder> open_png(std::span<const std::uint8_t> data) {
  return std::make_unique<PngDecoder>(data);
}

}  // namespace temper
