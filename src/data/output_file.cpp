#include "data/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::size_t kPendingSize = std::size_t{1} << 20;

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (fd_ < 0) {
    throw_errno(concat("cannot create ", path.string()));
  }
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void OutputFile::append(std::span<const std::uint8_t> bytes) {
  if (bytes.size() >= kPendingSize) {
    flush();
    write_at(position_, bytes);
  } else {
    pending_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  position_ += bytes.size();
  if (pending_.size() >= kPendingSize) {
    flush();
  }
}

void OutputFile::align(std::uint64_t alignment) {
  const std::uint64_t gap = (alignment - position_ % alignment) % alignment;
  pending_.append(gap, '\0');
  position_ += gap;
}

void OutputFile::overwrite(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  flush();
  write_at(offset, bytes);
}

void OutputFile::finish(bool durable) {
  flush();
  if (durable && ::fsync(fd_) != 0) {
    throw_errno(concat("cannot write ", path_.string()));
  }
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) {
    throw_errno(concat("cannot write ", path_.string()));
  }
}

void OutputFile::flush() {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(pending_.data()), pending_.size());
  write_at(position_ - pending_.size(), bytes);
  pending_.clear();
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw_errno(concat("cannot write ", path_.string()));
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void require_absent(const std::filesystem::path& path) {
  if (path.empty()) {
    throw ConfigError("the output has no name");
  }
  if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
    throw ConfigError(concat(path.string(), " exists already; remove it or choose another name"));
  }
}

void create_folder_atomically(
    const std::filesystem::path& folder,
    const std::function<void(const std::filesystem::path& temporary)>& write) {
  require_absent(folder);
  const std::filesystem::path target = folder.has_filename() ? folder : folder.parent_path();
  std::filesystem::path temporary = target;
  temporary.replace_filename(concat(".", target.filename().string(), ".", ::getpid(), ".tmp"));
  try {
    std::filesystem::create_directories(temporary);
    write(temporary);
    std::filesystem::rename(temporary, target);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace temper
