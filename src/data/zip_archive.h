#pragma once
// Reads members of a zip archive as NumPy writes it: stored or deflated, with or without zip64.
// Every error is a DataError that names the file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/data_file.h"

namespace temper {

// Where a member's bytes lie in the archive; inside the file.
struct ZipRegion {
  std::uint64_t offset = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;  // of the content, equal to stored_size unless deflated
  std::uint32_t crc = 0;   // of the content
  bool deflated = false;
};

class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path, Mapping mapping = Mapping::kIfLocal);

  // In the order of the central directory; no name occurs twice.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(const std::string& name) const { return find(name) != nullptr; }

  [[nodiscard]] ZipRegion locate(const std::string& name) const;

  // The whole member, its checksum verified. From several threads at a time, if wanted.
  [[nodiscard]] std::vector<std::uint8_t> read(const std::string& name) const;

  // For regions that are read later, also after the end of the archive.
  [[nodiscard]] const std::shared_ptr<const DataFile>& file() const { return file_; }

 private:
  struct Member {
    std::string name;
    std::uint16_t flags = 0;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t stored_size = 0;
    std::uint64_t size = 0;
    std::uint64_t header = 0;  // offset of the local header
  };

  [[nodiscard]] const Member* find(const std::string& name) const;
  [[noreturn]] void fail(const std::string& reason) const;
  void require_inside(std::uint64_t offset, std::uint64_t size) const;
  std::vector<std::uint8_t> read_bytes(std::uint64_t offset, std::uint64_t size) const;
  void read_directory();
  void add_member(Member member);

  std::shared_ptr<const DataFile> file_;
  std::vector<Member> members_;
};

}  // namespace temper
