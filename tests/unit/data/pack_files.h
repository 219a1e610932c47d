#pragma once
// Packs that are damaged on purpose, with right checksums.

#include <string>

#include "data/byte_stream.h"
#include "data/checksum.h"
#include "data/pack_layout.h"

namespace temper {

inline std::uint64_t number_at(const std::string& file, std::size_t at, std::size_t bytes = 8) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) {
    value = value << 8 | static_cast<std::uint8_t>(file.at(at + i));
  }
  return value;
}

inline void put_number(std::string& file, std::size_t at, std::uint64_t value,
                       std::size_t bytes = 8) {
  for (std::size_t i = 0; i < bytes; ++i) {
    file.at(at + i) = static_cast<char>(value >> (8 * i));
  }
}

// Writes the checksums that the header and the index should have.
inline void repair_pack(std::string& file) {
  if (file.size() < kPackHeaderSize) {
    return;
  }
  const std::uint64_t begin = number_at(file, 56);
  const std::uint64_t size = number_at(file, 64);
  if (begin <= file.size() && size <= file.size() - begin) {
    put_number(file, kPackIndexCrcAt, crc32_of(bytes_of(file).subspan(begin, size)), 4);
  }
  put_number(file, kPackHeaderCrcAt, crc32_of(bytes_of(file).first(kPackHeaderCrcAt)), 4);
}

}  // namespace temper
