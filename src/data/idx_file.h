#pragma once
// Arrays of bytes in MNIST's IDX format, plain or gzipped.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace temper {

struct IdxArray {
  std::vector<std::uint32_t> shape;
  std::vector<std::uint8_t> data;
};

// Throws DataError for a damaged file, ConfigError for an array of other numbers than bytes or of
// other than `dimensions` dimensions.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path, std::size_t dimensions);

}  // namespace temper
