#pragma once
// A file of many samples, whose parts are read by any number of threads. On a file system of this
// host the file is mapped. Elsewhere it is read call by call: there a lost connection would end the
// process with SIGBUS instead of giving an error that can be named.

#include <cstdint>
#include <filesystem>
#include <span>

#include "data/input_file.h"
#include "temper/data/buffer.h"

namespace temper {

enum class Mapping { kIfLocal, kNever };

class DataFile {
 public:
  // Throws DataError when the path is no readable regular file.
  explicit DataFile(const std::filesystem::path& path, Mapping mapping = Mapping::kIfLocal);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  [[nodiscard]] bool is_mapped() const { return mapping_ != nullptr; }

  // The bytes [offset, offset + size), which must lie inside the file: the mapping's, or read into
  // `buffer`. Throws DataError on a read error.
  [[nodiscard]] std::span<const std::uint8_t> view(std::uint64_t offset, std::uint64_t size,
                                                   Buffer& buffer) const;
  // Never the mapping's.
  [[nodiscard]] std::span<const std::uint8_t> read(std::uint64_t offset, std::uint64_t size,
                                                   Buffer& buffer) const;

 private:
  std::filesystem::path path_;
  InputFile file_;
  std::uint8_t* mapping_ = nullptr;
};

}  // namespace temper
