#pragma once
// JPEG files for tests.

// jpeglib.h needs the two before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <cstdlib>
#include <string>

#include "temper/data/image.h"

namespace temper {

struct JpegSettings {
  int quality = 90;
  int horizontal = 2;  // sampling factors of luma; chroma has 1
  int vertical = 2;
  bool progressive = false;
  int restart_rows = 0;
};

inline std::string jpeg_file(const Image& image, const JpegSettings& settings = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, settings.quality, TRUE);
  if (image.channels == 3) {
    info.comp_info[0].h_samp_factor = settings.horizontal;
    info.comp_info[0].v_samp_factor = settings.vertical;
  }
  info.restart_in_rows = settings.restart_rows;
  if (settings.progressive) {
    jpeg_simple_progression(&info);
  }
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    const std::size_t stride = image.bytes().size() / info.image_height;
    JSAMPROW row = const_cast<JSAMPROW>(image.bytes().data() + stride * info.next_scanline);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  const std::string file(reinterpret_cast<const char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

// A smooth picture with edges and noise, so that chroma and its upsampling show.
inline Image photo_like(int height, int width, int channels, unsigned seed = 0) {
  Image image{height, width, channels, {}};
  std::vector<std::uint8_t> pixels;
  unsigned noise = seed * 2654435761U + 1;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        noise = noise * 1664525U + 1013904223U;
        const int edge = (x / 9 + y / 7 + static_cast<int>(seed)) % 3 == c ? 90 : 0;
        pixels.push_back(static_cast<std::uint8_t>(
            (x * (c + 1) * 2 + y * (3 - c) + edge + static_cast<int>(noise >> 28)) % 256));
      }
    }
  }
  image.pixels = std::move(pixels);
  return image;
}

}  // namespace temper
