// Any bytes give an image of the announced size or a DataError.

#include <cstdlib>

#include "data/codec.h"
#include "temper/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> input(data, size);
  for (const int channels : {1, 3}) {
    try {
      const temper::Image image = temper::decode_image(input, channels);
      if (image.channels != channels || image.bytes().size() != image.element_count()) {
        std::abort();
      }
    } catch (const temper::DataError&) {
    }
  }
  try {
    static_cast<void>(temper::describe_encoding(input));
  } catch (const temper::DataError&) {
  }
  return 0;
}
