#pragma once
// Small images, files and archives for the tests of this folder.

#include <png.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "temper/data/image.h"

namespace temper {

// Every element differs from its neighbours and from those of other seeds.
inline Image pattern_image(int height, int width, int channels, unsigned seed = 0) {
  Image image{height, width, channels, {}};
  std::vector<std::uint8_t> pixels(image.element_count());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>((i * 37 + seed * 101 + i / 7) % 251);
  }
  image.pixels = std::move(pixels);
  return image;
}

inline void write_png(const std::filesystem::path& path, const Image& image) {
  std::filesystem::create_directories(path.parent_path());
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  if (png_image_write_to_file(&header, path.c_str(), 0, image.bytes().data(), 0, nullptr) == 0) {
    throw std::runtime_error(header.message);
  }
}

inline void write_bytes(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A .npy file, version 1.0.
inline std::string npy(const std::string& dtype, const std::string& shape, const std::string& data,
                       bool fortran = false) {
  std::string header = "{'descr': '" + dtype +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }\n";
  std::string file = "\x93NUMPY";
  file += {'\1', '\0', static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  return file + header + data;
}

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

// A zip archive with stored members.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out;
  std::string directory;
  for (const auto& [name, data] : members) {
    const std::string common =
        little_endian(20, 2) + std::string(8, '\0') +
        little_endian(crc32_z(0, reinterpret_cast<const unsigned char*>(data.data()), data.size()),
                      4) +
        little_endian(data.size(), 4) + little_endian(data.size(), 4) +
        little_endian(name.size(), 2) + little_endian(0, 2);
    directory += little_endian(0x02014b50, 4) + little_endian(20, 2) + common +
                 std::string(10, '\0') + little_endian(out.size(), 4) + name;
    out += little_endian(0x04034b50, 4) + common + name + data;
  }
  const std::size_t begin = out.size();
  return out + directory + little_endian(0x06054b50, 4) + std::string(4, '\0') +
         little_endian(members.size(), 2) + little_endian(members.size(), 2) +
         little_endian(directory.size(), 4) + little_endian(begin, 4) + little_endian(0, 2);
}

}  // namespace temper
