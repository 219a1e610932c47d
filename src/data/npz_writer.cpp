#include "data/npz_writer.h"

#include "data/byte_stream.h"
#include "data/checksum.h"

namespace temper {
namespace {

constexpr std::uint32_t kIn64 = 0xffffffff;  // the number stands in the zip64 field
constexpr std::uint32_t kVersion64 = 45;
constexpr std::uint64_t kAlignment = 64;
constexpr std::uint32_t kLocalExtraSize = 20;
constexpr std::uint32_t kEntryExtraSize = 28;

void put_u16(ByteWriter& writer, std::uint32_t value) {
  writer.raw(std::string{static_cast<char>(value), static_cast<char>(value >> 8)});
}

// What a local header and an entry of the directory have in common.
void put_common(ByteWriter& writer, const std::string& name, std::uint32_t crc,
                std::uint32_t extra_size) {
  put_u16(writer, kVersion64);
  put_u16(writer, 0);       // flags
  put_u16(writer, 0);       // stored
  put_u16(writer, 0);       // time
  put_u16(writer, 0x0021);  // 1 January 1980
  writer.u32(crc);
  writer.u32(kIn64);
  writer.u32(kIn64);
  put_u16(writer, static_cast<std::uint32_t>(name.size()));
  put_u16(writer, extra_size);
}

}  // namespace

std::string NpzWriter::local_header(const Member& member) {
  ByteWriter writer;
  writer.u32(0x04034b50);
  put_common(writer, member.name, member.crc, kLocalExtraSize);
  writer.raw(member.name);
  put_u16(writer, 1);
  put_u16(writer, kLocalExtraSize - 4);
  writer.u64(member.size);
  writer.u64(member.size);
  return writer.bytes();
}

std::string NpzWriter::directory_entry(const Member& member) {
  ByteWriter writer;
  writer.u32(0x02014b50);
  put_u16(writer, kVersion64);
  put_common(writer, member.name, member.crc, kEntryExtraSize);
  put_u16(writer, 0);  // comment
  put_u16(writer, 0);  // disk
  put_u16(writer, 0);
  writer.u32(0);  // attributes
  writer.u32(kIn64);
  writer.raw(member.name);
  put_u16(writer, 1);
  put_u16(writer, kEntryExtraSize - 4);
  writer.u64(member.size);
  writer.u64(member.size);
  writer.u64(member.header_offset);
  return writer.bytes();
}

void NpzWriter::begin(const std::string& name, const std::string& dtype, const std::string& shape) {
  member_ = {.name = name + ".npy", .header_offset = file_.position()};
  file_.append(bytes_of(local_header(member_)));
  std::string header =
      concat("{'descr': '", dtype, "', 'fortran_order': False, 'shape': ", shape, ", }");
  const std::uint64_t end = file_.position() + 10 + header.size() + 1;
  header.append((kAlignment - end % kAlignment) % kAlignment, ' ');
  header += '\n';
  ByteWriter writer;
  writer.raw(std::string_view("\x93NUMPY\1\0", 8));
  put_u16(writer, static_cast<std::uint32_t>(header.size()));
  writer.raw(header);
  append(bytes_of(writer.bytes()));
}

void NpzWriter::append(std::span<const std::uint8_t> bytes) {
  file_.append(bytes);
  member_.size += bytes.size();
  member_.crc = crc32_of(bytes, member_.crc);
}

void NpzWriter::end() {
  file_.overwrite(member_.header_offset, bytes_of(local_header(member_)));
  members_.push_back(member_);
}

std::uint64_t NpzWriter::finish() {
  ByteWriter writer;
  for (const Member& member : members_) {
    writer.raw(directory_entry(member));
  }
  const std::uint64_t begin = file_.position();
  const std::uint64_t size = writer.bytes().size();
  writer.u32(0x06064b50);
  writer.u64(44);  // what follows of this record
  put_u16(writer, kVersion64);
  put_u16(writer, kVersion64);
  writer.u32(0);
  writer.u32(0);
  for (const std::uint64_t value :
       {std::uint64_t{members_.size()}, std::uint64_t{members_.size()}, size, begin}) {
    writer.u64(value);
  }
  writer.u32(0x07064b50);
  writer.u32(0);
  writer.u64(begin + size);
  writer.u32(1);
  writer.u32(0x06054b50);
  writer.u32(0);
  put_u16(writer, 0xffff);
  put_u16(writer, 0xffff);
  writer.u32(kIn64);
  writer.u32(kIn64);
  put_u16(writer, 0);
  file_.append(bytes_of(writer.bytes()));
  file_.finish();
  return file_.position();
}

}  // namespace temper
