#pragma once
// Whether two checkpoint files are the same.

#include <cstdint>
#include <filesystem>

namespace temper {

// The checksum of the manifest, which covers every tensor: equal for files of equal content. Only
// the manifest is read. DataError for a file that is no checkpoint, SystemError for a missing one.
[[nodiscard]] std::uint32_t checkpoint_checksum(const std::filesystem::path& path);

}  // namespace temper
