// Any bytes give a data set whose samples load, or a ConfigError or DataError. Bytes that begin as
// an array are split at the next array and packed with right checksums, so that the array reader
// gets its share.

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "fuzz/memory_file.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "unit/data/test_images.h"

namespace {

constexpr std::string_view kArray = "\x93NUMPY";

std::string archive_of(const std::string& text) {
  if (!text.starts_with(kArray)) {
    return text;
  }
  const std::size_t split = std::min(text.find(kArray, 1), text.size());
  return temper::zip({{"images.npy", text.substr(0, split)}, {"labels.npy", text.substr(split)}});
}

void load_ends(const temper::Dataset& dataset) {
  for (const std::size_t index : {std::size_t{0}, dataset.size() - 1}) {
    const temper::Image image = dataset.load(index);
    if (image.channels != dataset.channels() || image.element_count() == 0) {
      std::abort();
    }
    static_cast<void>(dataset.describe(index));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const temper::fuzz::MemoryFile file(archive_of({data, data + size}));
  for (const char* selector : {"", "#train", "#x,y"}) {
    try {
      load_ends(
          *temper::open_dataset({.format = "npz", .path = file.path() + selector, .channels = 0}));
    } catch (const temper::ConfigError&) {
    } catch (const temper::DataError&) {
    }
  }
  return 0;
}
