#include "temper/core/file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "temper/core/disk.h"
#include "temper/core/error.h"

namespace temper {
namespace {

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) {
      throw_errno(concat("cannot open ", path.string()));
    }
  }
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

void sync(const std::filesystem::path& path, int flags) {
  const Descriptor file(path, flags);
  if (::fsync(file.get()) != 0 && errno != EINVAL) {  // some file systems cannot sync a folder
    throw_errno(concat("cannot sync ", path.string()));
  }
}

// ".NAME.PID.tmp"
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return concat(".", path.filename().string(), ".", ::getpid(), ".tmp");
}

bool is_temporary_name(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) {
    return false;
  }
  name.remove_suffix(kEnd.size());
  const std::size_t dot = name.rfind('.');
  return dot > 0 && dot + 1 < name.size() &&
         name.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  std::string content;
  std::string buffer(std::size_t{1} << 16, '\0');
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno(concat("cannot read ", path.string()));
    }
    if (count == 0) {
      return content;
    }
    content.append(buffer, 0, static_cast<std::size_t>(count));
  }
}

void replace_file_atomically(
    const std::filesystem::path& path,
    const std::function<void(const std::filesystem::path& temporary)>& write) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::filesystem::path temporary = folder / temporary_name(path);
  try {
    write(temporary);
    sync(temporary, O_RDONLY);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno(concat("cannot rename ", temporary.string(), " to ", path.string()));
    }
  } catch (...) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  sync(folder, O_RDONLY | O_DIRECTORY);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  replace_file_atomically(path, [&](const std::filesystem::path& temporary) {
    const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    std::string_view rest = content;
    while (!rest.empty()) {
      const ssize_t count = ::write(file.get(), rest.data(), rest.size());
      if (count < 0) {
        if (errno == EINTR) {
          continue;
        }
        throw_errno(concat("cannot write ", path.string()));
      }
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  });
}

void remove_interrupted_writes(const std::filesystem::path& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (is_temporary_name(entry.path().filename().string()) &&
        entry.symlink_status().type() == std::filesystem::file_type::regular &&
        ::unlink(entry.path().c_str()) != 0 && errno != ENOENT) {
      throw_errno(concat("cannot remove ", entry.path().string()));
    }
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    throw SystemError(concat("cannot list ", folder.string()), code.value());
  }
}

std::uint64_t free_space(const std::filesystem::path& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) {
    throw_errno(concat("cannot look at the file system of ", path.string()));
  }
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace temper
