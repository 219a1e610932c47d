// jpeglib.h needs the two before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on
#include <csetjmp>

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

bool read_rows(Decoder& decoder, std::uint8_t* out, std::size_t stride) {
  if (setjmp(decoder.escape) != 0) {
    return false;
  }
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = out + stride * decoder.info.output_scanline;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

class JpegReader {
 public:
  explicit JpegReader(std::span<const std::uint8_t> data) {
    if (!read_header(decoder_, data)) {
      const DataError error = failure();
      jpeg_destroy_decompress(&decoder_.info);
      throw error;
    }
  }
  ~JpegReader() { jpeg_destroy_decompress(&decoder_.info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  [[nodiscard]] const jpeg_decompress_struct& info() const { return decoder_.info; }

  Image decode() {
    jpeg_decompress_struct& info = decoder_.info;
    check_image_size(info.image_width, info.image_height);
    switch (info.num_components) {
      case 1:
        info.out_color_space = JCS_GRAYSCALE;
        break;
      case 3:
        info.out_color_space = JCS_RGB;
        break;
      case 4:
        info.out_color_space = JCS_CMYK;
        break;
      default:
        throw DataError(concat("unsupported JPEG with ", info.num_components, " components"));
    }
    Image image{static_cast<int>(info.image_height),
                static_cast<int>(info.image_width),
                info.num_components,
                {}};
    std::vector<std::uint8_t> pixels(image.element_count());
    if (!read_rows(decoder_, pixels.data(), pixels.size() / info.image_height)) {
      throw failure();
    }
    if (image.channels == 4) {
      image.channels = 3;
      pixels = inverted_cmyk_to_rgb(pixels);
    }
    image.pixels = std::move(pixels);
    return image;
  }

 private:
  [[nodiscard]] DataError failure() const {
    if (decoder_.truncated) {
      return DataError("truncated: the JPEG file ends before its end marker");
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

Image decode_jpeg(std::span<const std::uint8_t> data, int channels) {
  return with_channels(JpegReader(data).decode(), channels);
}

bool is_progressive_jpeg(std::span<const std::uint8_t> data) {
  return JpegReader(data).info().progressive_mode != FALSE;
}

}  // namespace temper
