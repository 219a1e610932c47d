#include "temper/checkpoint/container.h"

#include <map>

#include "checkpoint/archive.h"
#include "checkpoint/container_writer.h"
#include "checkpoint/file_io.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pickle_writer.h"
#include "checkpoint/plain_tensor.h"
#include "checkpoint/unpickler.h"
#include "temper/checkpoint/checksum.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

void write_archive(const Value& value, const ArchiveWriter::Output& output) {
  const Pickle pickle = make_pickle(value);
  ArchiveWriter archive("checkpoint", output);
  const auto add = [&archive](const std::string& name, std::string_view content) {
    const RecordSum sum{content.size(), crc32_of(content)};
    archive.add(name, content, sum.crc32);
    return sum;
  };

  Manifest manifest;
  manifest.pickle = add(kPickleRecord, pickle.bytes);
  add("byteorder", "little");
  std::vector<RecordSum> sums;
  for (const at::Tensor& storage : pickle.storages) {
    sums.push_back(add(concat("data/", sums.size()), bytes_of(to_plain_cpu(storage))));
  }
  for (const StoredTensor& tensor : pickle.tensors) {
    TensorEntry entry = describe_tensor(tensor.name, pickle.storages[tensor.storage]);
    entry.record = concat("data/", tensor.storage);
    entry.sum = sums[tensor.storage];
    manifest.tensors.push_back(std::move(entry));
  }
  add("version", "3\n");
  add(kManifestRecord, to_json(manifest));
  archive.finish();
}

}  // namespace

void write_checkpoint_observed(const std::filesystem::path& path, const Value& value,
                               const std::function<void(std::uint64_t written)>& after_write) {
  with_file_name(path, [&] {
    replace_file_atomically(path, [&](const std::filesystem::path& temporary) {
      FileWriter file(temporary, path.string());
      std::uint64_t written = 0;
      write_archive(value, [&](std::string_view bytes) {
        file.write(bytes);
        written += bytes.size();
        if (after_write) {
          after_write(written);
        }
      });
    });
  });
}

void write_checkpoint(const std::filesystem::path& path, const Value& value) {
  write_checkpoint_observed(path, value, {});
}

namespace {

std::string require_manifest(const ArchiveReader& archive) {
  if (!archive.contains(kManifestRecord)) {
    throw DataError("it has no manifest.json: it is not a checkpoint of Temper, or damaged");
  }
  return archive.read(kManifestRecord);
}

}  // namespace

Value read_verified(const ArchiveReader& archive) {
  const Manifest manifest = parse_manifest(require_manifest(archive));
  check_byte_order(archive);
  std::map<std::string, RecordSum> sums;
  for (const TensorEntry& entry : manifest.tensors) {
    sums[entry.record] = entry.sum;
  }
  const auto check = [](const std::string& name, const RecordSum& actual, const RecordSum& sum) {
    if (actual != sum) {
      throw DataError(concat("the record '", name, "' differs from its checksum in manifest.json"));
    }
  };
  const std::string pickle = archive.read(kPickleRecord);
  check(kPickleRecord, {pickle.size(), crc32_of(pickle)}, manifest.pickle);
  Value value = unpickle(pickle, [&](const std::string& key) {
    const std::string name = concat("data/", key);
    StorageRecord record = read_storage(archive, name);
    check(name, {record.bytes.nbytes(), record.crc32}, sums[name]);
    return record.bytes;
  });
  check_tensors(manifest, value);
  return value;
}

Value read_checkpoint(const std::filesystem::path& path) {
  return with_file_name(path, [&] { return read_verified(ArchiveReader(path)); });
}

std::uint32_t checkpoint_checksum(const std::filesystem::path& path) {
  return with_file_name(path, [&] { return crc32_of(require_manifest(ArchiveReader(path))); });
}

}  // namespace temper
