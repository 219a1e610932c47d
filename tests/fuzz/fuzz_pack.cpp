// Any bytes give a pack whose samples load, or a ConfigError or DataError. The checksums are made
// right, so that what they guard is reached.

#include <algorithm>
#include <cstdlib>

#include "fuzz/memory_file.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "unit/data/pack_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string content(reinterpret_cast<const char*>(data), size);
  temper::repair_pack(content);
  const temper::fuzz::MemoryFile file(content);
  try {
    const auto dataset =
        temper::open_dataset({.format = "pack", .path = file.path(), .channels = 0});
    for (std::size_t i = 0; i < std::min<std::size_t>(dataset->size(), 4); ++i) {
      static_cast<void>(dataset->sample_name(i));
      try {
        if (dataset->load(i).channels != dataset->channels()) {
          std::abort();
        }
      } catch (const temper::DataError&) {
      }
    }
  } catch (const temper::ConfigError&) {
  } catch (const temper::DataError&) {
  }
  return 0;
}
