#pragma once
// The parts that both kinds of checkpoint file share.

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <filesystem>
#include <string>

#include "checkpoint/archive.h"
#include "checkpoint/file_io.h"
#include "temper/checkpoint/value.h"
#include "temper/core/error.h"
#include "temper/core/state_dict.h"

namespace temper {

inline constexpr const char* kPickleRecord = "data.pkl";
inline constexpr const char* kManifestRecord = "manifest.json";

// Calls `read` and puts the file's name before the reason of a DataError.
template <typename Read>
auto with_file_name(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw DataError(concat(path.string(), ": ", error.what()));
  } catch (const c10::Error& error) {
    throw DataError(concat(path.string(), ": ", error.what_without_backtrace()));
  }
}

struct StorageRecord {
  at::Tensor bytes;  // uint8 [n]
  std::uint32_t crc32 = 0;
};
[[nodiscard]] StorageRecord read_storage(const ArchiveReader& archive, const std::string& name);

// Throws DataError for an archive of another byte order.
void check_byte_order(const ArchiveReader& archive);

// Reads a safetensors file; an error is the reason alone.
[[nodiscard]] StateDict read_tensors(const FileReader& file);

// Reads a file of torch.save that has no manifest.
[[nodiscard]] Value read_plain(const ArchiveReader& archive);

// Reads a file with a manifest and checks it.
[[nodiscard]] Value read_verified(const ArchiveReader& archive);

}  // namespace temper
