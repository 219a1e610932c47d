#include "checkpoint/archive.h"

#include <zlib.h>

#include <algorithm>
#include <concepts>
#include <optional>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kCentralHeaderSize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kEnd64LocatorSize = 20;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kPaddingExtra = 0x4246;
constexpr std::uint16_t kVersion = 45;  // zip64
constexpr std::uint16_t kUtf8Names = 0x0800;
constexpr std::uint32_t kFirstDate = 0x0021'0000;  // 1 January 1980, the format's zero
constexpr std::uint32_t kInZip64 = 0xffff'ffff;
constexpr std::uint64_t kAlignment = 64;

// Little-endian fields.
template <std::unsigned_integral T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

template <std::unsigned_integral T>
T get(std::string_view bytes, std::size_t offset) {
  if (offset + sizeof(T) > bytes.size()) {
    throw DataError("the archive's directory ends within an entry");
  }
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<unsigned char>(bytes[offset + i]))
                                       << (8 * i));
  }
  return value;
}

std::uint32_t narrow(std::uint64_t value) {
  return value < kInZip64 ? static_cast<std::uint32_t>(value) : kInZip64;
}

// The fields that both kinds of header share, from the version to the name's length.
void put_common(std::string& out, std::uint32_t crc, std::uint64_t size, std::size_t name_length) {
  put(out, kVersion);
  put(out, kUtf8Names);
  put(out, std::uint16_t{0});  // stored
  put(out, kFirstDate);
  put(out, crc);
  put(out, narrow(size));
  put(out, narrow(size));
  put(out, static_cast<std::uint16_t>(name_length));
}

}  // namespace

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void ArchiveWriter::emit(std::string_view bytes) {
  output_(bytes);
  position_ += bytes.size();
}

void ArchiveWriter::add(const std::string& name, std::string_view content, std::uint32_t crc) {
  const Entry entry{concat(root_, "/", name), content.size(), position_, crc};
  std::string extra;
  if (entry.size >= kInZip64) {
    put(extra, kZip64Extra);
    put(extra, std::uint16_t{16});
    put(extra, entry.size);
    put(extra, entry.size);
  }
  const std::uint64_t unpadded =
      position_ + kLocalHeaderSize + entry.name.size() + extra.size() + 4;
  const std::uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  put(extra, kPaddingExtra);
  put(extra, static_cast<std::uint16_t>(padding));
  extra.append(padding, 'Z');

  std::string header;
  put(header, kLocalHeader);
  put_common(header, crc, entry.size, entry.name.size());
  put(header, static_cast<std::uint16_t>(extra.size()));
  emit(header + entry.name + extra);
  emit(content);
  entries_.push_back(entry);
}

void ArchiveWriter::finish() {
  const std::uint64_t directory = position_;
  for (const Entry& entry : entries_) {
    std::string sizes;  // in the order in which the header's fields overflow
    if (entry.size >= kInZip64) {
      put(sizes, entry.size);
      put(sizes, entry.size);
    }
    if (entry.offset >= kInZip64) {
      put(sizes, entry.offset);
    }
    std::string extra;
    if (!sizes.empty()) {
      put(extra, kZip64Extra);
      put(extra, static_cast<std::uint16_t>(sizes.size()));
      extra += sizes;
    }
    std::string header;
    put(header, kCentralHeader);
    put(header, kVersion);
    put_common(header, entry.crc, entry.size, entry.name.size());
    put(header, static_cast<std::uint16_t>(extra.size()));
    header.append(10, '\0');  // no comment, first disk, no attributes
    put(header, narrow(entry.offset));
    emit(header + entry.name + extra);
  }
  const std::uint64_t directory_size = position_ - directory;
  const std::uint64_t count = entries_.size();

  std::string end;
  put(end, kEnd64);
  put(end, std::uint64_t{kEnd64Size - 12});
  put(end, kVersion);
  put(end, kVersion);
  put(end, std::uint64_t{0});  // this disk and the directory's
  put(end, count);
  put(end, count);
  put(end, directory_size);
  put(end, directory);
  put(end, kEnd64Locator);
  put(end, std::uint32_t{0});
  put(end, position_);
  put(end, std::uint32_t{1});
  put(end, kEnd);
  put(end, std::uint32_t{0});
  const auto short_count = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff));
  put(end, short_count);
  put(end, short_count);
  put(end, narrow(directory_size));
  put(end, narrow(directory));
  put(end, std::uint16_t{0});
  emit(end);
}

ArchiveReader::ArchiveReader(const std::filesystem::path& path) : file_(path) {
  read_directory(locate_directory());
}

ArchiveReader::Directory ArchiveReader::locate_directory() const {
  if (file_.size() == 0) {
    throw DataError("it is empty");
  }
  if (get<std::uint16_t>(concat(file_.read_at(0, std::min<std::uint64_t>(2, file_.size())), "  "),
                         0) != static_cast<std::uint16_t>(kLocalHeader)) {
    throw DataError(
        "it is not a zip archive; files of PyTorch before 1.6 must be saved again with a newer "
        "one");
  }
  const std::uint64_t tail_size = std::min<std::uint64_t>(file_.size(), 0xffff + kEndSize);
  const std::uint64_t tail_offset = file_.size() - tail_size;
  const std::string tail = file_.read_at(tail_offset, tail_size);
  std::string signature;
  put(signature, kEnd);
  const std::size_t end = tail.rfind(signature);
  if (end == std::string::npos || tail.size() - end < kEndSize) {
    throw DataError("the end of the archive is missing: the file is truncated or damaged");
  }
  Directory directory{get<std::uint32_t>(tail, end + 16), get<std::uint32_t>(tail, end + 12),
                      get<std::uint16_t>(tail, end + 10)};
  if (end < kEnd64LocatorSize ||
      get<std::uint32_t>(tail, end - kEnd64LocatorSize) != kEnd64Locator) {
    return directory;
  }
  const std::string end64 =
      file_.read_at(get<std::uint64_t>(tail, end - kEnd64LocatorSize + 8), kEnd64Size);
  if (get<std::uint32_t>(end64, 0) != kEnd64) {
    throw DataError("the archive's end record is damaged");
  }
  return {get<std::uint64_t>(end64, 48), get<std::uint64_t>(end64, 40),
          get<std::uint64_t>(end64, 32)};
}

namespace {

struct CentralEntry {
  std::string name;
  std::uint64_t size;
  std::uint64_t offset;
  std::uint32_t crc;
  bool is_compressed;
  std::size_t length;  // of the entry in the directory
};

// Takes the wide value of a field that overflowed from the zip64 extra block.
std::uint64_t widen(std::uint32_t field, std::string_view zip64, std::size_t& position) {
  if (field != kInZip64) {
    return field;
  }
  const auto value = get<std::uint64_t>(zip64, position);
  position += sizeof(value);
  return value;
}

std::string_view find_zip64(std::string_view extra) {
  while (extra.size() >= 4) {
    const auto kind = get<std::uint16_t>(extra, 0);
    const auto size = get<std::uint16_t>(extra, 2);
    if (kind == kZip64Extra) {
      return extra.substr(4, size);
    }
    extra.remove_prefix(std::min<std::size_t>(extra.size(), 4U + size));
  }
  return {};
}

CentralEntry parse_entry(std::string_view bytes) {
  if (get<std::uint32_t>(bytes, 0) != kCentralHeader) {
    throw DataError("the archive's directory is damaged");
  }
  const std::size_t name_length = get<std::uint16_t>(bytes, 28);
  const std::size_t extra_length = get<std::uint16_t>(bytes, 30);
  const std::size_t comment_length = get<std::uint16_t>(bytes, 32);
  CentralEntry entry;
  entry.length = kCentralHeaderSize + name_length + extra_length + comment_length;
  if (entry.length > bytes.size()) {
    throw DataError("the archive's directory ends within an entry");
  }
  entry.name = bytes.substr(kCentralHeaderSize, name_length);
  entry.crc = get<std::uint32_t>(bytes, 16);
  entry.is_compressed = get<std::uint16_t>(bytes, 10) != 0;
  const std::string_view zip64 =
      find_zip64(bytes.substr(kCentralHeaderSize + name_length, extra_length));
  std::size_t position = 0;
  entry.size = widen(get<std::uint32_t>(bytes, 24), zip64, position);
  const std::uint64_t stored_size = widen(get<std::uint32_t>(bytes, 20), zip64, position);
  entry.offset = widen(get<std::uint32_t>(bytes, 42), zip64, position);
  if (stored_size != entry.size && !entry.is_compressed) {
    throw DataError("the archive's directory is damaged");
  }
  return entry;
}

}  // namespace

void ArchiveReader::read_directory(const Directory& directory) {
  const std::string bytes = file_.read_at(directory.offset, directory.size);
  std::string_view rest = bytes;
  std::optional<std::string> root;
  std::uint64_t room = file_.size();  // a few bytes named as many records would fill the memory
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const CentralEntry entry = parse_entry(rest);
    rest.remove_prefix(entry.length);
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos) {
      throw DataError(concat("the record '", entry.name, "' lies in no folder"));
    }
    if (!root) {
      root = entry.name.substr(0, slash);
    }
    if (*root != entry.name.substr(0, slash) ||
        !entries_
             .try_emplace(entry.name.substr(slash + 1), entry.size, entry.offset, entry.crc,
                          entry.is_compressed)
             .second) {
      throw DataError(concat("the record '", entry.name, "' is out of place"));
    }
    if (!entry.is_compressed && entry.size > room) {
      throw DataError("its records are longer than the file together: it is damaged");
    }
    room -= entry.is_compressed ? 0 : entry.size;
    has_checksums_ = has_checksums_ || entry.crc != 0;
  }
  if (!rest.empty()) {
    throw DataError("the archive's directory is damaged");
  }
}

const ArchiveReader::Entry& ArchiveReader::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw DataError(concat("the record '", name, "' is missing"));
  }
  if (found->second.is_compressed) {
    throw DataError(concat("the record '", name, "' is compressed, which torch.save never does"));
  }
  return found->second;
}

std::uint32_t ArchiveReader::read(const std::string& name, void* out) const {
  const Entry& entry = find(name);
  const std::string header = file_.read_at(entry.offset, kLocalHeaderSize);
  if (get<std::uint32_t>(header, 0) != kLocalHeader) {
    throw DataError(concat("the header of the record '", name, "' is damaged"));
  }
  const std::uint64_t start = entry.offset + kLocalHeaderSize + get<std::uint16_t>(header, 26) +
                              get<std::uint16_t>(header, 28);
  file_.read_at(start, out, entry.size);
  const std::uint32_t crc = crc32_of({static_cast<const char*>(out), entry.size});
  if (has_checksums_ && crc != entry.crc) {
    throw DataError(concat("the checksum of the record '", name, "' is wrong: it is damaged"));
  }
  return crc;
}

std::uint64_t ArchiveReader::size(const std::string& name) const {
  const std::uint64_t size = find(name).size;
  if (size > file_.size()) {
    throw DataError(concat("the record '", name, "' is longer than the file"));
  }
  return size;
}

std::string ArchiveReader::read(const std::string& name) const {
  std::string bytes(size(name), '\0');
  read(name, bytes.data());
  return bytes;
}

}  // namespace temper
