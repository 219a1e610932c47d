#include "checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "temper/core/error.h"

namespace temper {

FileReader::FileReader(const std::filesystem::path& path)
    : path_(path),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // never waits for a pipe
  if (fd_ < 0) {
    throw_errno(concat("cannot open ", path.string()));
  }
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) {
      throw_errno(concat("cannot read ", path.string()));
    }
    if (!S_ISREG(status.st_mode)) {
      throw DataError("it is not a regular file");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

FileReader::~FileReader() { ::close(fd_); }

void FileReader::require_inside(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset) {
    throw DataError("it points beyond its own end: it is truncated or damaged");
  }
}

void FileReader::read_at(std::uint64_t offset, void* out, std::uint64_t size) const {
  require_inside(offset, size);
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t count = ::pread(fd_, bytes, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw_errno(concat("cannot read ", path_.string()));
    }
    if (count == 0) {
      throw DataError("the file became shorter while it was read");
    }
    bytes += count;
    offset += static_cast<std::uint64_t>(count);
    size -= static_cast<std::uint64_t>(count);
  }
}

std::string FileReader::read_at(std::uint64_t offset, std::uint64_t size) const {
  require_inside(offset, size);
  std::string bytes(size, '\0');
  read_at(offset, bytes.data(), size);
  return bytes;
}

FileWriter::FileWriter(const std::filesystem::path& path, std::string shown)
    : shown_(std::move(shown)),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) {
    throw_errno(concat("cannot write ", shown_));
  }
}

FileWriter::~FileWriter() { ::close(fd_); }

void FileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno(concat("cannot write ", shown_));
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace temper
