#pragma once
// One array in NumPy's .npy format, versions 1.0 to 3.0.

#include <cstdint>
#include <string>
#include <vector>

namespace temper {

struct NpyArray {
  std::string dtype;  // as NumPy writes it, e.g. "<f4"
  std::vector<std::uint64_t> shape;
  bool fortran_order = false;
  std::vector<std::uint8_t> file;  // header and data
  std::size_t data_begin = 0;
  std::size_t item_size = 0;

  [[nodiscard]] const std::uint8_t* data() const { return file.data() + data_begin; }
  [[nodiscard]] std::uint64_t element_count() const;
};

// Takes the bytes of a .npy file. Accepts plain numbers and booleans of either byte order, nothing
// is ever unpickled. Throws DataError that begins with `name`.
[[nodiscard]] NpyArray parse_npy(std::vector<std::uint8_t> file, const std::string& name);

// "(20, 28, 30, 3)".
[[nodiscard]] std::string shape_text(const NpyArray& array);

}  // namespace temper
