#pragma once
// 64-bit FNV-1a over a sequence of fields, for the comparison of data sets over ranks and runs.

#include <cstdint>
#include <string_view>

namespace temper {

class Fingerprint {
 public:
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));  // keeps neighbouring fields apart
    for (const char c : text) {
      add_byte(static_cast<std::uint8_t>(c));
    }
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<std::uint8_t>(number >> shift));
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3U; }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace temper
