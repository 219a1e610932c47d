#pragma once
// A kept scan of a folder. It holds the modification time of every class folder and of the folders
// below; when one differs the scan is not used. A file that is overwritten in place changes no
// folder: its old size stays in the fingerprint until the scan is made again.

#include <filesystem>
#include <optional>
#include <string>

#include "data/folder_scan.h"

namespace temper {

// Scans `root` and writes the scan to `file`, or without one to kFolderCacheName in it. Throws as
// scan_folder does, and SystemError when the file cannot be written.
FolderIndex write_folder_cache(const std::filesystem::path& root,
                               const std::filesystem::path& file);

// The kept scan, if it fits; lists no class folder. Otherwise a warning says why and what to do.
// With no `file` looks for kFolderCacheName in the folder, and says nothing when it is not there.
[[nodiscard]] std::optional<FolderIndex> load_folder_cache(const std::filesystem::path& root,
                                                           const std::filesystem::path& file);

}  // namespace temper
