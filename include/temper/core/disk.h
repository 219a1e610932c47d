#pragma once
// What the disk has left: room, and the remains of processes that were killed.

#include <cstdint>
#include <filesystem>

namespace temper {

// Removes what write_file_atomically and replace_file_atomically left in `folder` when their
// process was killed. Only while no other process writes there. A folder that is not there has
// nothing to remove. Throws SystemError.
void remove_interrupted_writes(const std::filesystem::path& folder);

// Bytes that this user may still write to the file system of `path`, which must exist.
[[nodiscard]] std::uint64_t free_space(const std::filesystem::path& path);

}  // namespace temper
