#include "temper/checkpoint/pytorch_file.h"

#include <ATen/ops/empty.h>

#include "checkpoint/file_reader.h"
#include "checkpoint/unpickler.h"

namespace temper {

StorageRecord read_storage(const ArchiveReader& archive, const std::string& name) {
  StorageRecord record;
  record.bytes = at::empty({static_cast<std::int64_t>(archive.size(name))},
                           at::TensorOptions().dtype(at::kByte));
  record.crc32 = archive.read(name, record.bytes.mutable_data_ptr());
  return record;
}

void check_byte_order(const ArchiveReader& archive) {
  if (archive.contains("byteorder") && archive.read("byteorder") != "little") {
    throw DataError("it was written on a big-endian machine");
  }
}

Value read_plain(const ArchiveReader& archive) {
  if (archive.contains("constants.pkl")) {
    throw DataError("it is a TorchScript module; save its state_dict() with torch.save instead");
  }
  check_byte_order(archive);
  return unpickle(archive.read(kPickleRecord), [&archive](const std::string& key) {
    return read_storage(archive, concat("data/", key)).bytes;
  });
}

Value read_pytorch_file(const std::filesystem::path& path) {
  return with_file_name(path, [&] { return read_plain(ArchiveReader(path)); });
}

}  // namespace temper
