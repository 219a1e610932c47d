#pragma once
// Reads members of a zip archive as NumPy writes it: stored or deflated, with or without zip64.
// Every error is a DataError that names the file.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/input_file.h"

namespace temper {

class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path);

  // In the order of the central directory; no name occurs twice.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(const std::string& name) const { return find(name) != nullptr; }

  // The whole member, its checksum verified.
  [[nodiscard]] std::vector<std::uint8_t> read(const std::string& name) const;

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
  std::vector<std::uint8_t> read_bytes(std::uint64_t offset, std::uint64_t size) const;
  void read_directory();
  void add_member(Member member);
  std::vector<std::uint8_t> inflate_member(const Member& member,
                                           const std::vector<std::uint8_t>& stored) const;

  std::filesystem::path path_;
  InputFile file_;
  std::vector<Member> members_;
};

}  // namespace temper
