#pragma once
// A file that grows by whole pieces, each in one write.

#include <filesystem>
#include <string_view>

namespace temper {

class AppendFile {
 public:
  enum class Start { kEmpty, kKeep };
  AppendFile(std::filesystem::path path, Start start);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Throws SystemError.
  void append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace temper
