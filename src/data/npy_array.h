#pragma once
// One array in NumPy's .npy format, versions 1.0 to 3.0.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace temper {

struct NpyHeader {
  std::string dtype;  // as NumPy writes it, e.g. "<f4"
  std::vector<std::uint64_t> shape;
  bool fortran_order = false;
  std::uint64_t data_begin = 0;  // in the .npy file, whose rest is the data
  std::size_t item_size = 0;

  [[nodiscard]] std::uint64_t element_count() const;
};

struct NpyArray : NpyHeader {
  NpyArray(NpyHeader header, std::vector<std::uint8_t> content)
      : NpyHeader(std::move(header)), file(std::move(content)) {}
  std::vector<std::uint8_t> file;  // header and data

  [[nodiscard]] const std::uint8_t* data() const { return file.data() + data_begin; }
};

// A header is never longer.
inline constexpr std::uint64_t kMaxNpyHeader = std::uint64_t{1} << 20;

// Takes the beginning of a .npy file, as much of it as there is up to kMaxNpyHeader bytes. Accepts
// plain numbers and booleans of either byte order, nothing is ever unpickled. Throws DataError that
// begins with `name`.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::uint8_t> begin,
                                         std::uint64_t file_size, const std::string& name);
// Takes the bytes of a whole .npy file.
[[nodiscard]] NpyArray parse_npy(std::vector<std::uint8_t> file, const std::string& name);

// "(20, 28, 30, 3)".
[[nodiscard]] std::string shape_text(const NpyHeader& array);

}  // namespace temper
