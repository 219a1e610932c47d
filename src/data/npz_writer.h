#pragma once
// Writes a .npz file with arrays that are stored, so that they can be read in place, and whose data
// begin at multiples of 64 bytes.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/output_file.h"

namespace temper {

class NpzWriter {
 public:
  explicit NpzWriter(const std::filesystem::path& path) : file_(path) {}

  // An array: its type and shape as NumPy writes them, its elements, its end.
  void begin(const std::string& name, const std::string& dtype, const std::string& shape);
  void append(std::span<const std::uint8_t> bytes);
  void end();

  // Returns the size of the file.
  std::uint64_t finish();

 private:
  // Its sizes stand in zip64 fields, as NumPy writes them.
  struct Member {
    std::string name;
    std::uint64_t header_offset = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
  };
  static std::string local_header(const Member& member);
  static std::string directory_entry(const Member& member);

  OutputFile file_;
  Member member_;
  std::vector<Member> members_;
};

}  // namespace temper
