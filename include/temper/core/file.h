#pragma once
// Whole-file operations with the system's reason in each error (SystemError).

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace temper {

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// Replaces `path` in one step: writes to a temporary name in the same folder, syncs, renames, syncs
// the folder. A reader sees the old file or the new one, also after a crash. The temporary file is
// removed on failure.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// The same for a writer that produces the file itself: `write` gets the temporary path and must
// close it.
void replace_file_atomically(
    const std::filesystem::path& path,
    const std::function<void(const std::filesystem::path& temporary)>& write);

}  // namespace temper
