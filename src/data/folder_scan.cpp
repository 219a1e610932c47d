#include "data/folder_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include "temper/core/error.h"
#include "temper/data/dataset.h"

namespace temper {
namespace {

// What torchvision's ImageFolder takes for an image.
constexpr std::array<std::string_view, 9> kExtensions = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                         ".pgm", ".tif",  ".tiff", ".webp"};

struct Identity {
  dev_t device;
  ino_t inode;
  friend bool operator==(const Identity&, const Identity&) = default;
};

struct Entry {
  std::string name;
  bool is_folder = false;
  std::uint64_t size = FolderIndex::kUnknownSize;
  std::int64_t modified = 0;
};

std::int64_t modified_of(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

struct Listing {
  Identity identity{};
  std::int64_t modified = 0;
  std::vector<Entry> entries;  // sorted by bytes, without names that start with a dot
  std::uint64_t skipped = 0;
};

Listing list_folder(const std::filesystem::path& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) {
    throw ConfigError(concat("cannot open the data folder ", path.string(), ": ",
                             std::generic_category().message(errno)));
  }
  Listing listing;
  const int fd = ::dirfd(folder.get());
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    throw_errno(concat("cannot read ", path.string()));
  }
  listing.identity = {status.st_dev, status.st_ino};
  listing.modified = modified_of(status);
  errno = 0;
  while (const dirent* item = ::readdir(folder.get())) {
    Entry entry{item->d_name};
    if (entry.name.starts_with('.')) {
      const bool counts = entry.name != "." && entry.name != ".." && entry.name != kFolderCacheName;
      listing.skipped += counts ? 1 : 0;
    } else {
      // Links are followed; one that leads nowhere stays listed and fails when it is read.
      if (::fstatat(fd, item->d_name, &status, 0) == 0) {
        entry.is_folder = S_ISDIR(status.st_mode);
        entry.size = static_cast<std::uint64_t>(status.st_size);
        entry.modified = modified_of(status);
      }
      listing.entries.push_back(std::move(entry));
    }
    errno = 0;
  }
  if (errno != 0) {
    throw_errno(concat("cannot read ", path.string()));
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return listing;
}

struct FoundFolder {
  std::string path;  // relative to the root
  std::int64_t modified = 0;
  std::vector<Entry> files;
};

class ClassScan {
 public:
  // `ancestors`: of the folder that run() is for.
  ClassScan(const std::filesystem::path& root, std::vector<Identity> ancestors)
      : root_(root), ancestors_(std::move(ancestors)) {}

  // A folder of `root` (empty: itself) and all below, sorted by their whole paths.
  std::vector<FoundFolder> run(const std::string& relative) {
    visit(relative);
    std::sort(folders_.begin(), folders_.end(),
              [](const FoundFolder& a, const FoundFolder& b) { return a.path < b.path; });
    return std::move(folders_);
  }
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }

 private:
  void visit(const std::string& relative) {
    Listing listing = list_folder(root_ / relative);
    if (std::find(ancestors_.begin(), ancestors_.end(), listing.identity) != ancestors_.end()) {
      throw ConfigError(concat("the link ", (root_ / relative).string(),
                               " leads back to a folder above it; remove the link"));
    }
    skipped_ += listing.skipped;
    ancestors_.push_back(listing.identity);
    FoundFolder found{relative, listing.modified, {}};
    for (Entry& entry : listing.entries) {
      if (entry.is_folder) {
        visit(relative.empty() ? entry.name : concat(relative, "/", entry.name));
      } else if (has_image_extension(entry.name)) {
        found.files.push_back(std::move(entry));
      }
    }
    folders_.push_back(std::move(found));
    ancestors_.pop_back();
  }

  std::filesystem::path root_;
  std::vector<Identity> ancestors_;
  std::vector<FoundFolder> folders_;
  std::uint64_t skipped_ = 0;
};

void append(FolderIndex& index, const FoundFolder& folder, std::int64_t label) {
  index.folders.push_back({folder.path, folder.modified});
  for (const Entry& file : folder.files) {
    index.paths += folder.path;
    index.paths += folder.path.empty() ? "" : "/";
    index.paths += file.name;
    index.begins.push_back(index.paths.size());
    index.labels.push_back(label);
    index.sizes.push_back(file.size);
  }
}

}  // namespace

std::vector<FolderStamp> class_folders(const std::filesystem::path& root) {
  std::vector<FolderStamp> folders;
  for (Entry& entry : list_folder(root).entries) {
    if (entry.is_folder) {
      folders.push_back({std::move(entry.name), entry.modified});
    }
  }
  return folders;
}

std::optional<std::int64_t> modification_time(const std::filesystem::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return modified_of(status);
}

bool has_image_extension(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](std::string_view extension) { return lower.ends_with(extension); });
}

FolderIndex scan_folder(const std::filesystem::path& root) {
  const Listing top = list_folder(root);
  FolderIndex index;
  index.skipped = top.skipped;
  std::vector<std::string> empty;
  for (const Entry& entry : top.entries) {
    if (!entry.is_folder) {
      continue;
    }
    const auto label = static_cast<std::int64_t>(index.classes.size());
    index.classes.push_back(entry.name);
    const std::size_t before = index.labels.size();
    ClassScan scan(root, {top.identity});
    for (const FoundFolder& folder : scan.run(entry.name)) {
      append(index, folder, label);
    }
    index.skipped += scan.skipped();
    if (index.labels.size() == before) {
      empty.push_back(entry.name);
    }
  }
  if (index.classes.empty()) {
    throw ConfigError(concat(root.string(),
                             " holds no class folder; expected one folder per class with its "
                             "image files, such as ",
                             (root / "cat" / "1.jpg").string()));
  }
  if (!empty.empty()) {
    throw ConfigError(concat("no image files in class folder ", join(empty, ", "), " of ",
                             root.string(), "; add images or remove the folder"));
  }
  return index;
}

FolderIndex scan_unlabelled_folder(const std::filesystem::path& root) {
  FolderIndex index;
  ClassScan scan(root, {});
  for (const FoundFolder& folder : scan.run("")) {
    append(index, folder, kNoLabel);
  }
  index.skipped = scan.skipped();
  if (index.labels.empty()) {
    throw ConfigError(concat(root.string(), " holds no image file"));
  }
  return index;
}

}  // namespace temper
