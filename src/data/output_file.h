#pragma once
// New files and folders that appear complete or not at all.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace temper {

// A new file, written from its beginning. Errors are SystemErrors that name it.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Where append() writes next.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  void append(std::span<const std::uint8_t> bytes);
  // Zeros up to the next multiple of `alignment`.
  void align(std::uint64_t alignment);
  // Replaces what was appended there.
  void overwrite(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  // Writes everything, to the disk itself when `durable`, and closes. Without it the file is not to
  // be used.
  void finish(bool durable = true);

 private:
  void flush();
  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes);

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t position_ = 0;
  std::string pending_;
};

// Throws ConfigError when there is something at `path`.
void require_absent(const std::filesystem::path& path);

// Makes the folder `folder`, which must not exist (ConfigError): `write` fills a temporary one
// beside it, which then gets the name. Nothing is left after an error.
void create_folder_atomically(
    const std::filesystem::path& folder,
    const std::function<void(const std::filesystem::path& temporary)>& write);

}  // namespace temper
