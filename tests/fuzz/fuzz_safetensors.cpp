// Any bytes give tensors that survive writing and reading, or a DataError. Bytes that begin as a
// header get its length before them, so that the parser of the header gets its share.

#include <cstdlib>
#include <string>

#include "fuzz/memory_file.h"
#include "support/scratch_folder.h"
#include "temper/checkpoint/safetensors.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"

namespace {

std::string file_of(const std::string& text) {
  if (!text.starts_with('{')) {
    return text;
  }
  const std::size_t end = text.rfind('}');
  std::size_t length = end == std::string::npos ? text.size() : end + 1;
  std::string bytes;
  for (int i = 0; i < 8; ++i, length >>= 8) {
    bytes += static_cast<char>(static_cast<unsigned char>(length));
  }
  return bytes + text;
}

void require_round_trip(const temper::StateDict& state) {
  static const temper::ScratchFolder folder;
  const std::filesystem::path path = folder / "again.safetensors";
  temper::write_safetensors(path, state);
  const temper::ValueDict again = temper::to_dict(temper::read_safetensors(path));
  for (const auto& [name, tensor] : state) {
    if (!temper::identical(again.at(name), tensor)) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const temper::fuzz::MemoryFile file(file_of({data, data + size}));
  temper::StateDict state;
  try {
    state = temper::read_safetensors(file.path());
  } catch (const temper::DataError&) {
    return 0;
  }
  require_round_trip(state);
  return 0;
}
