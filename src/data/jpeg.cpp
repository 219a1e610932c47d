// jpeglib.h needs the two before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on
#include <algorithm>
#include <csetjmp>
#include <string_view>

#include "data/codec.h"
#include "data/convert.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// The library's state with ways out of it: errors jump, since it is C, and become exceptions
// outside of its frames.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = "";
  bool truncated = false;
};

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

[[noreturn]] void on_error(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message);
  std::longjmp(decoder.escape, 1);
}

// Warnings that leave every pixel as the encoder meant it. Bytes before the end marker are padding
// that some cameras write.
bool is_harmless(const jpeg_error_mgr& errors) {
  switch (errors.msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
      return true;
    case JWRN_EXTRANEOUS_DATA:
      return errors.msg_parm.i[1] == JPEG_EOI;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(*info->err)) {
    on_error(info);
  }
}

boolean on_end_of_data(j_decompress_ptr info) {
  decoder_of(reinterpret_cast<j_common_ptr>(info)).truncated = true;
  std::longjmp(decoder_of(reinterpret_cast<j_common_ptr>(info)).escape, 1);
}

void skip_input(j_decompress_ptr info, long count) {
  if (count <= 0) {
    return;
  }
  if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer) {
    on_end_of_data(info);
  }
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

void do_nothing(j_decompress_ptr) {}

void begin(Decoder& decoder, std::span<const std::uint8_t> data) {
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.info.client_data = &decoder;
  jpeg_create_decompress(&decoder.info);
  decoder.info.client_data = &decoder;
  decoder.source.next_input_byte = data.data();
  decoder.source.bytes_in_buffer = data.size();
  decoder.source.init_source = do_nothing;
  decoder.source.fill_input_buffer = on_end_of_data;
  decoder.source.skip_input_data = skip_input;
  decoder.source.resync_to_restart = jpeg_resync_to_restart;
  decoder.source.term_source = do_nothing;
  decoder.info.src = &decoder.source;
}

// The functions with setjmp hold no object with a destructor, so that the jump skips none.
bool read_header(Decoder& decoder, std::span<const std::uint8_t> data) {
  if (setjmp(decoder.escape) != 0) {
    return false;
  }
  begin(decoder, data);
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

// Whether the coefficients are known so roughly that libjpeg smooths the blocks: a progressive file
// without its last scans. Smoothing does not go together with skipped rows and columns.
bool is_smoothed(const jpeg_decompress_struct& info) {
  constexpr int kSmoothedFrom = 1;
  constexpr int kSmoothedTo = 10;
  for (int i = 0;
       info.progressive_mode != FALSE && info.coef_bits != nullptr && i < info.num_components;
       ++i) {
    const int* bits = info.coef_bits[i];
    if (std::any_of(bits + kSmoothedFrom, bits + kSmoothedTo, [](int b) { return b != 0; })) {
      return true;
    }
  }
  return false;
}

// Chooses the columns [x, x + width), which become more.
bool start_columns(Decoder& decoder, JDIMENSION& x, JDIMENSION& width) {
  if (setjmp(decoder.escape) != 0) {
    return false;
  }
  jpeg_start_decompress(&decoder.info);
  if (is_smoothed(decoder.info)) {
    x = 0;
    width = decoder.info.output_width;
  } else if (width < decoder.info.output_width) {
    jpeg_crop_scanline(&decoder.info, &x, &width);
  }
  return true;
}

bool read_rows(Decoder& decoder, JDIMENSION begin, JDIMENSION end, std::uint8_t* out,
               std::size_t stride) {
  if (setjmp(decoder.escape) != 0) {
    return false;
  }
  if (is_smoothed(decoder.info)) {
    while (decoder.info.output_scanline < begin) {
      jpeg_read_scanlines(&decoder.info, &out, 1);
    }
  } else if (begin > 0) {
    jpeg_skip_scanlines(&decoder.info, begin);
  }
  while (decoder.info.output_scanline < end) {
    JSAMPROW row = out + stride * (decoder.info.output_scanline - begin);
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  if (end == decoder.info.output_height) {
    jpeg_finish_decompress(&decoder.info);
  }
  return true;
}

// Whether the end marker is among the bytes that are not decoded; in coded data 0xFF is followed
// by 0.
bool end_follows(Decoder& decoder) {
  // Files of several scans have been read to their end.
  if (decoder.info.unread_marker == JPEG_EOI || jpeg_input_complete(&decoder.info) != FALSE) {
    return true;
  }
  const std::string_view rest(reinterpret_cast<const char*>(decoder.source.next_input_byte),
                              decoder.source.bytes_in_buffer);
  return rest.rfind("\xff\xd9") != std::string_view::npos;
}

// Columns to decode for a region: fancy upsampling looks one pixel further, and libjpeg-turbo's
// cropped upsampling needs some columns to work on.
void choose_columns(const Rectangle& region, int image_width, JDIMENSION& x, JDIMENSION& width) {
  constexpr int kFewest = 32;
  int begin = std::max(0, region.x - 1);
  const int end = std::min(image_width, std::max(region.x + region.width + 1, begin + kFewest));
  begin = std::max(0, std::min(begin, end - kFewest));
  x = static_cast<JDIMENSION>(begin);
  width = static_cast<JDIMENSION>(end - begin);
}

class JpegDecoder final : public ImageDecoder {
 public:
  explicit JpegDecoder(std::span<const std::uint8_t> data) {
    try {
      if (!read_header(decoder_, data)) {
        throw failure();
      }
      check_image_size(info().image_width, info().image_height);
    } catch (...) {
      jpeg_destroy_decompress(&decoder_.info);
      throw;
    }
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&decoder_.info); }

  [[nodiscard]] const jpeg_decompress_struct& info() const { return decoder_.info; }
  int width() const override { return static_cast<int>(info().image_width); }
  int height() const override { return static_cast<int>(info().image_height); }

  std::uint64_t memory_needed(const Rectangle& region, int channels) const override {
    const auto area = [](std::uint64_t a, std::uint64_t b) { return a * b; };
    const auto rows = static_cast<std::uint64_t>(region.height);
    JDIMENSION x = 0, columns = 0;
    choose_columns(region, width(), x, columns);
    if (info().progressive_mode != FALSE) {
      columns = info().image_width;
    }
    constexpr std::uint64_t kWidestBlock = 32;  // the columns begin at a whole block of samples
    std::uint64_t bytes = area(columns + kWidestBlock, rows) *
                          static_cast<std::uint64_t>(std::max(info().num_components, channels));
    // Of a progressive file all coefficients are kept.
    for (int i = 0; info().progressive_mode != FALSE && i < info().num_components; ++i) {
      bytes += area(info().comp_info[i].width_in_blocks, info().comp_info[i].height_in_blocks) *
               sizeof(JBLOCK);
    }
    return bytes;
  }

  PictureRegion decode(const Rectangle& region, int channels, Buffer& buffer) override {
    require(is_inside(region, width(), height()), "region outside of the picture");
    const int components = choose_color_space(channels);
    JDIMENSION x = 0, columns = 0;
    choose_columns(region, width(), x, columns);
    if (!start_columns(decoder_, x, columns)) {
      throw failure();
    }
    const std::size_t pixels = std::size_t{columns} * static_cast<std::size_t>(region.height);
    const std::span out =
        buffer.take(pixels * static_cast<std::size_t>(std::max(components, channels)));
    const auto begin = static_cast<JDIMENSION>(region.y);
    const JDIMENSION end = begin + static_cast<JDIMENSION>(region.height);
    if (!read_rows(decoder_, begin, end, out.data(),
                   std::size_t{columns} * static_cast<std::size_t>(components))) {
      throw failure();
    }
    if (end < info().image_height && !end_follows(decoder_)) {
      throw truncated();
    }
    if (components == 4) {
      inverted_cmyk_to_rgb(out.data(), pixels);
    }
    convert_channels(out.data(), pixels, components == 4 ? 3 : components, channels);
    return {{region.height, static_cast<int>(columns), channels, ElementType::kUInt8,
             out.first(pixels * static_cast<std::size_t>(channels))},
            static_cast<int>(x),
            region.y};
  }

 private:
  // Returns the number of components of the decoded rows.
  int choose_color_space(int channels) {
    switch (info().num_components) {
      case 1:
        decoder_.info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        return channels;
      case 3:
        decoder_.info.out_color_space = JCS_RGB;
        return 3;
      case 4:
        decoder_.info.out_color_space = JCS_CMYK;
        return 4;
      default:
        throw DataError(concat("unsupported JPEG with ", info().num_components, " components"));
    }
  }

  [[nodiscard]] static DataError truncated() {
    return DataError("truncated: the JPEG file ends before its end marker");
  }

  [[nodiscard]] DataError failure() const {
    if (decoder_.truncated) {
      return truncated();
    }
    std::string_view reason = decoder_.message;
    if (constexpr std::string_view kPrefix = "Corrupt JPEG data: "; reason.starts_with(kPrefix)) {
      reason.remove_prefix(kPrefix.size());
    }
    return DataError(concat("corrupt JPEG: ", reason));
  }

  Decoder decoder_;
};

}  // namespace

std::unique_ptr<ImageDecoder> open_jpeg(std::span<const std::uint8_t> data) {
  return std::make_unique<JpegDecoder>(data);
}

bool is_progressive_jpeg(std::span<const std::uint8_t> data) {
  return JpegDecoder(data).info().progressive_mode != FALSE;
}

}  // namespace temper
