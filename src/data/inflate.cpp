#include "data/inflate.h"

#include <libdeflate.h>

#include <memory>
#include <new>

namespace temper {

bool inflate_all(std::span<const std::uint8_t> data, std::span<std::uint8_t> out) {
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (decompressor == nullptr) {
    throw std::bad_alloc();
  }
  return libdeflate_deflate_decompress(decompressor.get(), data.data(), data.size(), out.data(),
                                       out.size(), nullptr) == LIBDEFLATE_SUCCESS;
}

}  // namespace temper
