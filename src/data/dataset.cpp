#include "temper/data/dataset.h"

#include <cstring>

#include "data/codec.h"
#include "data/convert.h"
#include "temper/core/error.h"

namespace temper {

ImageView store(const Image& image, Buffer& buffer) {
  ImageView view = view_of(image);
  const std::span bytes = buffer.take(view.bytes.size());
  std::memcpy(bytes.data(), view.bytes.data(), bytes.size());
  view.bytes = bytes;
  return view;
}

std::string Dataset::local_name(std::size_t index) const { return std::to_string(index); }

std::optional<std::uint64_t> Dataset::offset(std::size_t) const { return std::nullopt; }

std::uint64_t Dataset::stored_size(std::size_t) const { return 0; }

Image Dataset::load(std::size_t index) const {
  Buffer buffer;
  const StoredSample sample = read(index, buffer);
  if (const auto* view = std::get_if<ImageView>(&sample)) {
    return with_channels(copy_of(*view), channels());
  }
  try {
    return decode_image(std::get<EncodedImage>(sample), channels());
  } catch (const DataError& error) {
    throw DataError(concat(sample_name(index), ": ", error.what()));
  }
}

}  // namespace temper
