// Our readers of checkpoints and of files of torch.save. An input is a whole file (it begins as a
// zip archive), the text of a manifest without its checksum (it begins with a brace), or a pickle.
// So the fuzzer need not guess checksums to get behind them.

#include <ATen/ops/arange.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/archive.h"
#include "checkpoint/manifest.h"
#include "checkpoint/unpickler.h"
#include "fuzz/memory_file.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"

namespace {

// A DataError is the one allowed answer to a file that is not right.
template <typename Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const temper::DataError&) {
    return;
  }
}

void read_file_in_every_way(const std::string& path) {
  read_or_refuse([&] { static_cast<void>(temper::read_checkpoint(path)); });
  read_or_refuse([&] { static_cast<void>(temper::read_pytorch_file(path)); });
  read_or_refuse([&] { static_cast<void>(temper::read_state_dict(path)); });
}

// What was read can be read by every element: nothing lies outside its storage.
void touch(const temper::Value& value) {
  temper::for_each_tensor(value, [](const std::string&, const at::Tensor& tensor) {
    constexpr std::int64_t kEnough = 1 << 16;  // strides of zero make huge tensors of few bytes
    if (tensor.numel() <= kEnough) {
      static_cast<void>(tensor.contiguous());
    }
  });
}

void read_pickle(std::string_view bytes) {
  const auto storage = [](const std::string&) { return at::arange(64, at::kByte); };
  read_or_refuse([&] { touch(temper::unpickle(bytes, storage)); });
}

void read_manifest(std::string_view start) {
  const std::string text =
      temper::concat(start, ",\"manifest_crc32\":", temper::crc32_of(start), "}");
  read_or_refuse([&] { static_cast<void>(temper::parse_manifest(text)); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with("PK")) {
    read_file_in_every_way(temper::fuzz::MemoryFile(bytes).path());
  } else if (bytes.starts_with('{')) {
    read_manifest(bytes);
  } else {
    read_pickle(bytes);
  }
  return 0;
}
