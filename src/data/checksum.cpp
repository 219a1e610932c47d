#include "data/checksum.h"

#include <libdeflate.h>

namespace temper {

std::uint32_t crc32_of(std::span<const std::uint8_t> data, std::uint32_t before) {
  return libdeflate_crc32(before, data.data(), data.size());
}

}  // namespace temper
