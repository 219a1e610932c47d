#include "metrics/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "temper/core/error.h"

namespace temper {

AppendFile::AppendFile(std::filesystem::path path, Start start)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(),
                 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (start == Start::kEmpty ? O_TRUNC : 0),
                 0666)) {
  if (fd_ < 0) {
    throw_errno(concat("cannot open ", path_.string()));
  }
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno(concat("cannot write ", path_.string()));
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace temper
