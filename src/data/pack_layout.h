#pragma once
// The file of the pack format, little-endian:
//
//   header   magic, version, content, shard and number of shards, samples here, first sample,
//   samples
//            of all shards, fingerprint of the source, place and size of the index, CRC-32 of the
//            index, CRC-32 of the header up to here
//   data     the samples one after another; pixels begin at multiples of 64 bytes
//   index    the class names, one record a sample, the samples' names; ends the file
//
// Every number is checked against the file before it is used.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace temper {

enum class PackContent : std::uint32_t { kEncoded = 0, kUInt8 = 1, kFloat32 = 2 };

inline constexpr std::size_t kPackHeaderSize = 80;
inline constexpr std::size_t kPackIndexCrcAt = 72;   // in the header
inline constexpr std::size_t kPackHeaderCrcAt = 76;  // in the header
inline constexpr std::uint64_t kPackAlignment = 64;

struct PackHeader {
  PackContent content = PackContent::kEncoded;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  std::uint64_t samples = 0;  // of this shard
  std::uint64_t first_sample = 0;
  std::uint64_t total_samples = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t index_offset = 0;
  std::uint64_t index_size = 0;
  std::uint32_t index_crc = 0;
};

struct PackRecord {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;      // bytes
  std::uint64_t name_end = 0;  // in PackIndex::names
  std::uint32_t label = 0;
  std::uint32_t crc = 0;
  std::uint32_t height = 0;  // of pixels; 0 for encoded images, as width and channels
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
};

struct PackIndex {
  std::vector<std::string> classes;
  std::vector<PackRecord> records;
  std::string names;  // one after another

  [[nodiscard]] std::string_view name(std::size_t record) const {
    const std::uint64_t begin = record == 0 ? 0 : records[record - 1].name_end;
    return std::string_view(names).substr(begin, records[record].name_end - begin);
  }
};

[[nodiscard]] std::string serialize(const PackHeader& header);
[[nodiscard]] std::string serialize(const PackIndex& index);

// "part-00000-of-00004.pack"
[[nodiscard]] std::string shard_file_name(std::uint32_t shard, std::uint32_t shards);

// `name` stands in front of what is thrown: ConfigError for a file of another kind or version,
// DataError for a damaged one. `bytes` are the first kPackHeaderSize of the file, or fewer.
[[nodiscard]] PackHeader parse_pack_header(std::span<const std::uint8_t> bytes,
                                           std::uint64_t file_size, const std::string& name);
// `bytes` are those the header speaks of.
[[nodiscard]] PackIndex parse_pack_index(std::span<const std::uint8_t> bytes,
                                         const PackHeader& header, const std::string& name);

}  // namespace temper
