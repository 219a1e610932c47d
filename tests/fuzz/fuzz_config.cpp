// Any bytes give a configuration that survives printing and reading, or a ConfigError.

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/recipe/load_config.h"

namespace {

temper::LoadedConfig load(std::string_view text) {
  static const temper::ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "input.yaml";
  std::ofstream(path, std::ios::binary) << text;
  return temper::load_config({path});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // An included device might never end.
  if (text.find("/dev") != std::string_view::npos || text.find("/proc") != std::string_view::npos) {
    return -1;
  }
  temper::LoadedConfig loaded;
  try {
    loaded = load(text);
  } catch (const temper::ConfigError&) {
    return 0;
  }
  if (!(load(temper::print_config(loaded)).config == loaded.config)) {
    std::abort();
  }
  return 0;
}
