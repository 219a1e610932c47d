#pragma once
// Reading regular files without ever blocking on a pipe or a device.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "temper/data/buffer.h"

namespace temper {

class InputFile {
 public:
  // Throws DataError when the path is no readable regular file.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] int descriptor() const { return fd_; }
  // Fills `out` from `offset`. Throws DataError at the end of the file and on a read error.
  void read_at(std::uint64_t offset, std::span<std::uint8_t> out) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

[[nodiscard]] std::vector<std::uint8_t> read_regular_file(const std::filesystem::path& path);
// The content lies in `buffer`.
[[nodiscard]] std::span<const std::uint8_t> read_regular_file(const std::filesystem::path& path,
                                                              Buffer& buffer);

}  // namespace temper
