#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "temper/core/error.h"

namespace temper {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const char* what, int code) {
  throw DataError(concat(path.string(), ": ", what, ": ", std::generic_category().message(code)));
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK keeps a pipe that takes the file's place from stopping the thread.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    refuse(path, "cannot be opened", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError(concat(path.string(), ": is not a regular file"));
  }
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) {
    refuse(path, "cannot be opened", errno);
  }
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw DataError(concat(path.string(), ": is not a regular file"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::read_at(std::uint64_t offset, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      refuse(path_, "cannot be read", errno);
    }
    if (count == 0) {
      throw DataError(concat(path_.string(), ": is truncated: ends at byte ", offset));
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

std::vector<std::uint8_t> read_regular_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::uint8_t> content(file.size());
  file.read_at(0, content);
  return content;
}

std::span<const std::uint8_t> read_regular_file(const std::filesystem::path& path, Buffer& buffer) {
  const InputFile file(path);
  const std::span<std::uint8_t> content = buffer.take(file.size());
  file.read_at(0, content);
  return content;
}

}  // namespace temper
