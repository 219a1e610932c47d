#pragma once
// Finds the image files below class folders in the order of torchvision's ImageFolder.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

// Where `datatool index` keeps the scan of a folder; no scan takes notice of it.
inline constexpr const char* kFolderCacheName = ".temper_index";

// Whether a folder's files of this name are listed.
[[nodiscard]] bool has_image_extension(std::string_view name);

struct FolderStamp {
  std::string path;           // relative to the root
  std::int64_t modified = 0;  // nanoseconds since 1970
};

struct FolderIndex {
  std::vector<std::string> classes;
  // Paths relative to the root, one after another; file i is [begins[i], begins[i + 1]).
  std::string paths;
  std::vector<std::uint64_t> begins{0};
  std::vector<std::int64_t> labels;
  std::vector<std::uint64_t> sizes;  // bytes; kUnknownSize for links that lead nowhere
  std::vector<FolderStamp> folders;  // the class folders and all below
  std::uint64_t skipped = 0;         // names that start with a dot

  static constexpr std::uint64_t kUnknownSize = UINT64_MAX;
  [[nodiscard]] std::string_view path(std::size_t index) const {
    return std::string_view(paths).substr(begins[index], begins[index + 1] - begins[index]);
  }
};

// Throws ConfigError for a missing or unreadable folder, no class folder, class folders without
// files, and a link that leads back up.
[[nodiscard]] FolderIndex scan_folder(const std::filesystem::path& root);

// Image files at any depth, all with kNoLabel; no classes. Throws ConfigError for a missing or
// unreadable folder, one without image files, and a link that leads back up.
[[nodiscard]] FolderIndex scan_unlabelled_folder(const std::filesystem::path& root);

// The folders directly in `root`, sorted; lists no other folder. Throws as scan_folder does.
[[nodiscard]] std::vector<FolderStamp> class_folders(const std::filesystem::path& root);

// Nanoseconds since 1970; nothing when the folder is not there.
[[nodiscard]] std::optional<std::int64_t> modification_time(const std::filesystem::path& folder);

}  // namespace temper
