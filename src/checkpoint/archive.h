#pragma once
// Zip archives as torch.save makes them: stored, never compressed, one root folder, each record's
// bytes aligned. Larger files and records use the zip64 fields.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file_io.h"

namespace temper {

[[nodiscard]] std::uint32_t crc32_of(std::string_view bytes);

class ArchiveWriter {
 public:
  using Output = std::function<void(std::string_view bytes)>;

  ArchiveWriter(std::string root, Output output)
      : root_(std::move(root)), output_(std::move(output)) {}

  // `crc` is crc32_of(content).
  void add(const std::string& name, std::string_view content, std::uint32_t crc);
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t size;
    std::uint64_t offset;
    std::uint32_t crc;
  };

  void emit(std::string_view bytes);

  std::string root_;
  Output output_;
  std::uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

// Throws DataError with the reason, without the file's name, or SystemError.
class ArchiveReader {
 public:
  explicit ArchiveReader(const std::filesystem::path& path);

  [[nodiscard]] bool contains(const std::string& name) const { return entries_.contains(name); }
  // Never more than the file has, so that memory for a record may be taken before it is read.
  [[nodiscard]] std::uint64_t size(const std::string& name) const;

  // Fills `out` with exactly size(name) bytes and returns their CRC-32, which was compared with the
  // archive's unless the archive was written without checksums.
  std::uint32_t read(const std::string& name, void* out) const;
  [[nodiscard]] std::string read(const std::string& name) const;

 private:
  struct Entry {
    std::uint64_t size;
    std::uint64_t offset;  // of the local header
    std::uint32_t crc;
    bool is_compressed;
  };
  struct Directory {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t count;
  };

  [[nodiscard]] const Entry& find(const std::string& name) const;
  [[nodiscard]] Directory locate_directory() const;
  void read_directory(const Directory& directory);

  FileReader file_;
  bool has_checksums_ = false;
  std::map<std::string, Entry> entries_;
};

}  // namespace temper
