#pragma once
// Decompression of a whole deflate stream in memory.

#include <cstdint>
#include <span>

namespace temper {

// False when `data` is damaged or does not give exactly out.size() bytes.
[[nodiscard]] bool inflate_all(std::span<const std::uint8_t> data, std::span<std::uint8_t> out);

}  // namespace temper
