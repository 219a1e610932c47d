#include "data/zip_archive.h"

#include <algorithm>

#include "data/checksum.h"
#include "data/inflate.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint64_t little_endian(const Bytes& data, std::size_t offset, int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) {
    value = value << 8 | data[offset + static_cast<std::size_t>(i)];
  }
  return value;
}
std::uint16_t u16(const Bytes& data, std::size_t offset) {
  return static_cast<std::uint16_t>(little_endian(data, offset, 2));
}
std::uint32_t u32(const Bytes& data, std::size_t offset) {
  return static_cast<std::uint32_t>(little_endian(data, offset, 4));
}
std::uint64_t u64(const Bytes& data, std::size_t offset) { return little_endian(data, offset, 8); }

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocator64Size = 20;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the value stands in the zip64 extra field
constexpr std::uint64_t kMaxDeflateRatio = 1040;

// Replaces the sizes and the offset that are marked as standing in the zip64 extra field; false
// when they are not there.
bool read_zip64(const Bytes& extra, std::uint64_t& size, std::uint64_t& stored_size,
                std::uint64_t& header) {
  const bool needed = size == kIn64 || stored_size == kIn64 || header == kIn64;
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::size_t end = at + 4 + u16(extra, at + 2);
    if (end > extra.size()) {
      return !needed;
    }
    if (u16(extra, at) == 1) {
      std::size_t field = at + 4;
      for (std::uint64_t* value : {&size, &stored_size, &header}) {
        if (*value == kIn64) {
          if (field + 8 > end) {
            return false;
          }
          *value = u64(extra, field);
          field += 8;
        }
      }
      return true;
    }
    at = end;
  }
  return !needed;
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path, Mapping mapping)
    : file_(std::make_shared<const DataFile>(path, mapping)) {
  read_directory();
}

void ZipArchive::fail(const std::string& reason) const {
  throw DataError(concat(file_->path().string(), ": ", reason));
}

void ZipArchive::require_inside(std::uint64_t offset, std::uint64_t size) const {
  if (offset > file_->size() || size > file_->size() - offset) {
    fail("damaged zip archive: a part lies beyond the end of the file");
  }
}

std::vector<std::uint8_t> ZipArchive::read_bytes(std::uint64_t offset, std::uint64_t size) const {
  require_inside(offset, size);
  Buffer buffer;
  const std::span<const std::uint8_t> bytes = file_->read(offset, size, buffer);
  return {bytes.begin(), bytes.end()};
}

void ZipArchive::read_directory() {
  const std::uint64_t tail_size = std::min<std::uint64_t>(file_->size(), kEndSize + 0xffff);
  const std::uint64_t tail_begin = file_->size() - tail_size;
  const Bytes tail = read_bytes(tail_begin, tail_size);
  // The end record is followed by a comment that reaches exactly to the end of the file.
  std::size_t end = tail.size() + 1 - std::min(tail.size() + 1, kEndSize);
  bool found = false;
  while (!found && end > 0) {
    --end;
    found = u32(tail, end) == kEndSignature && end + kEndSize + u16(tail, end + 20) == tail.size();
  }
  if (!found) {
    fail("is not a zip archive, or its end is missing");
  }
  std::uint64_t count = u16(tail, end + 10);
  std::uint64_t size = u32(tail, end + 12);
  std::uint64_t offset = u32(tail, end + 16);
  if (end >= kLocator64Size && u32(tail, end - kLocator64Size) == kLocator64Signature) {
    const Bytes end64 = read_bytes(u64(tail, end - kLocator64Size + 8), kEnd64Size);
    if (u32(end64, 0) != kEnd64Signature) {
      fail("damaged zip archive: no zip64 end record");
    }
    count = u64(end64, 32);
    size = u64(end64, 40);
    offset = u64(end64, 48);
  }
  const Bytes directory = read_bytes(offset, size);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (directory.size() - at < kCentralSize || u32(directory, at) != kCentralSignature) {
      fail("damaged zip archive: broken central directory");
    }
    const std::size_t name_size = u16(directory, at + 28);
    const std::size_t extra_size = u16(directory, at + 30);
    const std::size_t next = at + kCentralSize + name_size + extra_size + u16(directory, at + 32);
    if (next > directory.size()) {
      fail("damaged zip archive: broken central directory");
    }
    const auto name = directory.begin() + static_cast<std::ptrdiff_t>(at + kCentralSize);
    const auto extra = name + static_cast<std::ptrdiff_t>(name_size);
    Member member{std::string(name, extra), u16(directory, at + 8),  u16(directory, at + 10),
                  u32(directory, at + 16),  u32(directory, at + 20), u32(directory, at + 24),
                  u32(directory, at + 42)};
    if (!read_zip64(Bytes(extra, extra + static_cast<std::ptrdiff_t>(extra_size)), member.size,
                    member.stored_size, member.header)) {
      fail(concat("damaged zip archive: no size of member ", member.name));
    }
    add_member(std::move(member));
    at = next;
  }
}

void ZipArchive::add_member(Member member) {
  if (contains(member.name)) {
    fail(concat("duplicate array: the archive holds ", member.name, " twice"));
  }
  members_.push_back(std::move(member));
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const Member& member : members_) {
    names.push_back(member.name);
  }
  return names;
}

const ZipArchive::Member* ZipArchive::find(const std::string& name) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& member) { return member.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

ZipRegion ZipArchive::locate(const std::string& name) const {
  const Member* member = find(name);
  require(member != nullptr, "no member ", name, " in ", file_->path().string());
  if ((member->flags & 1) != 0) {
    fail(concat("zip member ", name, " is encrypted"));
  }
  if (member->method != 0 && member->method != 8) {
    fail(concat("zip member ", name, " has compression method ", member->method,
                "; expected stored or deflated"));
  }
  const Bytes local = read_bytes(member->header, kLocalSize);
  if (u32(local, 0) != kLocalSignature) {
    fail(concat("damaged zip archive: no local header of member ", name));
  }
  // The lengths here may differ from those of the central directory; sizes are only sure there.
  const ZipRegion region{.offset = member->header + kLocalSize + u16(local, 26) + u16(local, 28),
                         .stored_size = member->stored_size,
                         .size = member->size,
                         .crc = member->crc,
                         .deflated = member->method == 8};
  require_inside(region.offset, region.stored_size);
  if (!region.deflated && region.size != region.stored_size) {
    fail(concat("damaged zip archive: sizes of stored member ", name, " differ"));
  }
  if (region.deflated && region.size / kMaxDeflateRatio > region.stored_size) {
    fail(concat("member ", name, " claims a size that deflate cannot reach"));
  }
  return region;
}

std::vector<std::uint8_t> ZipArchive::read(const std::string& name) const {
  const ZipRegion region = locate(name);
  Buffer buffer;
  const std::span<const std::uint8_t> stored =
      file_->view(region.offset, region.stored_size, buffer);
  Bytes data(region.size);
  if (!region.deflated) {
    std::copy(stored.begin(), stored.end(), data.begin());
  } else if (!inflate_all(stored, data)) {
    fail(concat("wrong checksum or damaged data of deflated member ", name));
  }
  if (crc32_of(data) != region.crc) {
    fail(concat("wrong checksum of member ", name, ": the file is damaged"));
  }
  return data;
}

}  // namespace temper
