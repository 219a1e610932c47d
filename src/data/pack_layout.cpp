#include "data/pack_layout.h"

#include <algorithm>

#include "data/byte_stream.h"
#include "data/checksum.h"
#include "data/codec.h"
#include "temper/core/error.h"
#include "temper/data/image.h"

namespace temper {
namespace {

constexpr std::string_view kMagic = "TEMPERPK";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kRecordSize = 48;
constexpr std::uint32_t kMaxShards = 99'999;

std::string five_digits(std::uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

PackRecord read_record(ByteReader& reader) {
  PackRecord record;
  record.offset = reader.u64();
  record.size = reader.u64();
  record.name_end = reader.u64();
  record.label = reader.u32();
  record.crc = reader.u32();
  record.height = reader.u32();
  record.width = reader.u32();
  record.channels = reader.u32();
  (void)reader.u32();  // reserved
  return record;
}

// Samples follow each other without overlap, and pixels have the size their shape says.
bool fits(const PackRecord& record, std::uint64_t data_begin, const PackHeader& header) {
  if (record.offset < data_begin || record.offset > header.index_offset ||
      record.size > header.index_offset - record.offset) {
    return false;
  }
  if (header.content == PackContent::kEncoded) {
    return record.height == 0 && record.width == 0 && record.channels == 0;
  }
  const std::uint64_t element = header.content == PackContent::kUInt8 ? 1 : sizeof(float);
  return record.offset % kPackAlignment == 0 && record.height > 0 && record.width > 0 &&
         record.width <= kMaxImagePixels / record.height &&
         (record.channels == 1 || record.channels == 3) &&
         record.size == element * record.height * record.width * record.channels;
}

}  // namespace

std::string serialize(const PackHeader& header) {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.u32(kVersion);
  writer.u32(static_cast<std::uint32_t>(header.content));
  writer.u32(header.shard);
  writer.u32(header.shards);
  writer.u64(header.samples);
  writer.u64(header.first_sample);
  writer.u64(header.total_samples);
  writer.u64(header.fingerprint);
  writer.u64(header.index_offset);
  writer.u64(header.index_size);
  writer.u32(header.index_crc);
  writer.u32(crc32_of(bytes_of(writer.bytes())));
  return writer.bytes();
}

std::string serialize(const PackIndex& index) {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(index.classes.size()));
  for (const std::string& name : index.classes) {
    writer.text(name);
  }
  for (const PackRecord& record : index.records) {
    writer.u64(record.offset);
    writer.u64(record.size);
    writer.u64(record.name_end);
    for (const std::uint32_t value :
         {record.label, record.crc, record.height, record.width, record.channels, 0U}) {
      writer.u32(value);
    }
  }
  writer.raw(index.names);
  return writer.bytes();
}

std::string shard_file_name(std::uint32_t shard, std::uint32_t shards) {
  return concat("part-", five_digits(shard), "-of-", five_digits(shards), ".pack");
}

PackHeader parse_pack_header(std::span<const std::uint8_t> bytes, std::uint64_t file_size,
                             const std::string& name) {
  ByteReader reader(bytes, concat(name, ": is a damaged pack: the header is cut off"));
  if (bytes.size() < kMagic.size() || reader.raw(kMagic.size()) != kMagic) {
    throw ConfigError(concat(name, ": is no pack; `datatool pack` makes one"));
  }
  if (const std::uint32_t version = reader.u32(); version != kVersion) {
    throw ConfigError(concat(name, ": is a pack of format version ", version,
                             ", this program reads version ", kVersion, "; make the pack again"));
  }
  PackHeader header;
  header.content = static_cast<PackContent>(reader.u32());
  header.shard = reader.u32();
  header.shards = reader.u32();
  header.samples = reader.u64();
  header.first_sample = reader.u64();
  header.total_samples = reader.u64();
  header.fingerprint = reader.u64();
  header.index_offset = reader.u64();
  header.index_size = reader.u64();
  header.index_crc = reader.u32();
  if (reader.u32() != crc32_of(bytes.first(kPackHeaderCrcAt))) {
    throw DataError(concat(name, ": is a damaged pack: wrong checksum of the header"));
  }
  const bool ends_the_file = header.index_offset >= kPackHeaderSize &&
                             header.index_offset <= file_size &&
                             header.index_size == file_size - header.index_offset;
  if (!ends_the_file) {
    throw DataError(concat(name, ": is a damaged pack: ", file_size,
                           " bytes are not the length it was written with"));
  }
  const bool sensible = header.content <= PackContent::kFloat32 && header.shards >= 1 &&
                        header.shards <= kMaxShards && header.shard < header.shards &&
                        header.samples >= 1 && header.samples <= header.index_size / kRecordSize &&
                        header.total_samples <= UINT32_MAX &&
                        header.first_sample <= header.total_samples &&
                        header.samples <= header.total_samples - header.first_sample;
  if (!sensible) {
    throw DataError(concat(name, ": is a damaged pack: the header contradicts itself"));
  }
  return header;
}

PackIndex parse_pack_index(std::span<const std::uint8_t> bytes, const PackHeader& header,
                           const std::string& name) {
  if (crc32_of(bytes) != header.index_crc) {
    throw DataError(concat(name, ": is a damaged pack: wrong checksum of the index"));
  }
  ByteReader reader(bytes, concat(name, ": is a damaged pack: the index contradicts itself"));
  PackIndex index;
  const std::uint32_t classes = reader.u32();
  for (std::uint32_t i = 0; i < classes; ++i) {
    index.classes.emplace_back(reader.text());
  }
  if (header.samples > reader.left() / kRecordSize) {
    reader.fail();
  }
  index.records.reserve(header.samples);
  std::uint64_t data_end = kPackHeaderSize;
  std::uint64_t name_end = 0;
  for (std::uint64_t i = 0; i < header.samples; ++i) {
    const PackRecord record = read_record(reader);
    if (!fits(record, data_end, header) || record.label >= classes || record.name_end < name_end) {
      throw DataError(
          concat(name, ": is a damaged pack: the record of sample ", i, " does not fit the file"));
    }
    data_end = record.offset + record.size;
    name_end = record.name_end;
    index.records.push_back(record);
  }
  if (name_end != reader.left()) {
    reader.fail();
  }
  index.names = reader.raw(name_end);
  return index;
}

}  // namespace temper
