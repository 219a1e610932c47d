// Any bytes give CIFAR data whose samples load, or a ConfigError. A row may be repeated to reach
// its length: the first byte says how often each of the rest comes.

#include <cstdlib>

#include "fuzz/memory_file.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string content;
  for (std::size_t i = 1; i < size; ++i) {
    content.append(data[0], static_cast<char>(data[i]));
  }
  for (const std::size_t row : {std::size_t{3073}, std::size_t{3074}}) {
    const temper::fuzz::MemoryFile file(content.substr(0, content.size() / row * row));
    const temper::fuzz::MemoryFile raw(content);
    for (const std::string& path : {file.path(), raw.path()}) {
      try {
        const auto dataset = temper::open_dataset(
            {.format = row == 3073 ? "cifar10" : "cifar100", .path = path, .channels = 0});
        if (dataset->load(dataset->size() - 1).element_count() != 3072) {
          std::abort();
        }
      } catch (const temper::ConfigError&) {
      } catch (const temper::DataError&) {
      }
    }
  }
  return 0;
}
