// Any bytes give MNIST data whose samples load, or a ConfigError or DataError. The first byte
// says how many of the last are the file of labels.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "fuzz/memory_file.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"

namespace {

// A folder with two links, made once.
class LinkedPair {
 public:
  LinkedPair() {
    std::string name = (std::filesystem::temp_directory_path() / "fuzz_idx_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    folder_ = name;
  }
  ~LinkedPair() { std::filesystem::remove_all(folder_); }
  LinkedPair(const LinkedPair&) = delete;
  LinkedPair& operator=(const LinkedPair&) = delete;

  [[nodiscard]] std::string point_at(const std::string& images, const std::string& labels) const {
    for (const auto& [name, target] : {std::pair{"train-images-idx3-ubyte", images},
                                       std::pair{"train-labels-idx1-ubyte", labels}}) {
      std::filesystem::remove(folder_ / name);
      std::filesystem::create_symlink(target, folder_ / name);
    }
    return folder_.string();
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const LinkedPair pair;
  if (size == 0) {
    return 0;
  }
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t images = content.size() - std::min<std::size_t>(data[0], content.size());
  const temper::fuzz::MemoryFile image_file(content.substr(0, images));
  const temper::fuzz::MemoryFile label_file(content.substr(images));
  try {
    const auto dataset =
        temper::open_dataset({.format = "mnist",
                              .path = pair.point_at(image_file.path(), label_file.path()),
                              .channels = 0});
    static_cast<void>(dataset->load(dataset->size() - 1));
  } catch (const temper::ConfigError&) {
  } catch (const temper::DataError&) {
  }
  return 0;
}
