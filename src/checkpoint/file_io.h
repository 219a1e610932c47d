#pragma once
// Files by position, with errors in the words of this module.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace temper {

// Throws SystemError, or DataError with the reason alone, without the file's name.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Reads exactly `size` bytes; a place beyond the end is a DataError before memory is taken.
  void read_at(std::uint64_t offset, void* out, std::uint64_t size) const;
  [[nodiscard]] std::string read_at(std::uint64_t offset, std::uint64_t size) const;

 private:
  void require_inside(std::uint64_t offset, std::uint64_t size) const;

  std::filesystem::path path_;
  int fd_;
  std::uint64_t size_ = 0;
};

class FileWriter {
 public:
  // Makes or empties the file. `shown` is the name for errors: the file that the user knows.
  FileWriter(const std::filesystem::path& path, std::string shown);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);

 private:
  std::string shown_;
  int fd_;
};

}  // namespace temper
