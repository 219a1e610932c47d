#pragma once
// FNV-1a, to compare texts of several ranks.

#include <cstdint>
#include <string_view>

namespace temper {

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace temper
