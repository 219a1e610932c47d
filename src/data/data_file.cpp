#include "data/data_file.h"

#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "temper/core/error.h"

namespace temper {
namespace {

// f_type of statfs(2): ext2 to ext4, xfs, btrfs, tmpfs, overlay, zfs, f2fs, squashfs, bcachefs.
constexpr std::array<std::uint32_t, 9> kLocal = {0xef53,     0x58465342, 0x9123683e,
                                                 0x01021994, 0x794c7630, 0x2fc12fc1,
                                                 0xf2f52010, 0x73717368, 0xca451a4e};

bool is_local(int fd) {
  struct statfs status {};
  return ::fstatfs(fd, &status) == 0 &&
         std::find(kLocal.begin(), kLocal.end(), static_cast<std::uint32_t>(status.f_type)) !=
             kLocal.end();
}

}  // namespace

DataFile::DataFile(const std::filesystem::path& path, Mapping mapping) : path_(path), file_(path) {
  if (mapping == Mapping::kNever || size() == 0 || !is_local(file_.descriptor())) {
    return;
  }
  // Where memory cannot be mapped, calls do.
  void* memory = ::mmap(nullptr, size(), PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  mapping_ = memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

DataFile::~DataFile() {
  if (mapping_ != nullptr) {
    ::munmap(mapping_, size());
  }
}

std::span<const std::uint8_t> DataFile::view(std::uint64_t offset, std::uint64_t size,
                                             Buffer& buffer) const {
  if (mapping_ == nullptr) {
    return read(offset, size, buffer);
  }
  require(offset <= this->size() && size <= this->size() - offset, "a part beyond the end of ",
          path_.string());
  return {mapping_ + offset, size};
}

std::span<const std::uint8_t> DataFile::read(std::uint64_t offset, std::uint64_t size,
                                             Buffer& buffer) const {
  require(offset <= this->size() && size <= this->size() - offset, "a part beyond the end of ",
          path_.string());
  const std::span<std::uint8_t> bytes = buffer.take(size);
  file_.read_at(offset, bytes);
  return bytes;
}

}  // namespace temper
