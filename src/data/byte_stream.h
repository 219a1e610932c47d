#pragma once
// Numbers and texts of our own binary files, little-endian.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "temper/core/error.h"

namespace temper {

class ByteWriter {
 public:
  void u32(std::uint32_t value) { put(value, 4); }
  void u64(std::uint64_t value) { put(value, 8); }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  void text(std::string_view text) {
    u32(static_cast<std::uint32_t>(text.size()));
    raw(text);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_ += static_cast<char>(value >> (8 * i));
    }
  }
  std::string bytes_;
};

class ByteReader {
 public:
  // Reading beyond the end throws DataError with the text `reason`.
  ByteReader(std::span<const std::uint8_t> bytes, std::string reason)
      : bytes_(bytes), reason_(std::move(reason)) {}

  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view raw(std::uint64_t size) {
    if (size > bytes_.size()) {
      fail();
    }
    const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::string_view text() { return raw(u32()); }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }
  [[noreturn]] void fail() const { throw DataError(reason_); }

 private:
  std::uint64_t number(std::size_t count) {
    if (count > bytes_.size()) {
      fail();
    }
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) {
      value = value << 8 | bytes_[i];
    }
    bytes_ = bytes_.subspan(count);
    return value;
  }

  std::span<const std::uint8_t> bytes_;
  std::string reason_;
};

// For the checksums and files of texts.
[[nodiscard]] inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace temper
