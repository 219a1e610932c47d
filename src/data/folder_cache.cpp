#include "data/folder_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "data/byte_stream.h"
#include "data/checksum.h"
#include "data/input_file.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/log.h"

namespace temper {
namespace {

constexpr std::string_view kMagic = "TEMPERIX";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderSize = 16;  // magic, version, checksum of the rest

std::string serialize(const FolderIndex& index) {
  ByteWriter writer;
  writer.u64(index.skipped);
  writer.u32(static_cast<std::uint32_t>(index.classes.size()));
  for (const std::string& name : index.classes) {
    writer.text(name);
  }
  writer.u32(static_cast<std::uint32_t>(index.folders.size()));
  for (const FolderStamp& folder : index.folders) {
    writer.text(folder.path);
    writer.u64(static_cast<std::uint64_t>(folder.modified));
  }
  writer.u64(index.labels.size());
  writer.u64(index.paths.size());
  writer.raw(index.paths);
  for (std::size_t i = 0; i < index.labels.size(); ++i) {
    writer.u32(static_cast<std::uint32_t>(index.path(i).size()));
    writer.u32(static_cast<std::uint32_t>(index.labels[i]));
    writer.u64(index.sizes[i]);
  }
  ByteWriter file;
  file.raw(kMagic);
  file.u32(kVersion);
  file.u32(crc32_of(bytes_of(writer.bytes())));
  file.raw(writer.bytes());
  return file.bytes();
}

void read_samples(ByteReader& reader, FolderIndex& index) {
  constexpr std::size_t kSampleSize = 16;
  const std::uint64_t samples = reader.u64();
  index.paths = reader.raw(reader.u64());
  if (samples == 0 || samples != reader.left() / kSampleSize || reader.left() % kSampleSize != 0) {
    reader.fail();
  }
  index.begins.reserve(samples + 1);
  index.labels.reserve(samples);
  index.sizes.reserve(samples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::uint64_t end = index.begins.back() + reader.u32();
    const std::uint32_t label = reader.u32();
    if (end > index.paths.size() || label >= index.classes.size()) {
      reader.fail();
    }
    index.begins.push_back(end);
    index.labels.push_back(label);
    index.sizes.push_back(reader.u64());
  }
  if (index.begins.back() != index.paths.size()) {
    reader.fail();
  }
}

// Throws DataError with the reason alone.
FolderIndex parse(std::span<const std::uint8_t> file) {
  ByteReader header(file, "it is damaged");
  if (header.raw(kMagic.size()) != kMagic) {
    throw DataError("it is no index");
  }
  if (header.u32() != kVersion) {
    throw DataError("another version of this program wrote it");
  }
  if (header.u32() != crc32_of(file.subspan(kHeaderSize))) {
    header.fail();
  }
  ByteReader reader(file.subspan(kHeaderSize), "it is damaged");
  FolderIndex index;
  index.skipped = reader.u64();
  for (std::uint32_t left = reader.u32(); left > 0; --left) {
    index.classes.emplace_back(reader.text());
  }
  for (std::uint32_t left = reader.u32(); left > 0; --left) {
    std::string path(reader.text());
    index.folders.push_back({std::move(path), static_cast<std::int64_t>(reader.u64())});
  }
  read_samples(reader, index);
  return index;
}

// What is not as it was; empty when all is.
std::string difference(const std::filesystem::path& root, const FolderIndex& index) {
  const std::vector<FolderStamp> classes = class_folders(root);
  const auto same_name = [](const FolderStamp& folder, const std::string& name) {
    return folder.path == name;
  };
  if (!std::equal(classes.begin(), classes.end(), index.classes.begin(), index.classes.end(),
                  same_name)) {
    return "the class folders are others";
  }
  for (const FolderStamp& folder : index.folders) {
    const auto known = std::lower_bound(
        classes.begin(), classes.end(), folder.path,
        [](const FolderStamp& stamp, const std::string& path) { return stamp.path < path; });
    const bool is_class = known != classes.end() && known->path == folder.path;
    const auto modified =
        is_class ? std::optional(known->modified) : modification_time(root / folder.path);
    if (modified != folder.modified) {
      return concat("the folder ", folder.path, " has changed");
    }
  }
  return "";
}

std::int64_t newest(const FolderIndex& index) {
  std::int64_t time = 0;
  for (const FolderStamp& folder : index.folders) {
    time = std::max(time, folder.modified);
  }
  return time;
}

// A change within the clock tick of the last one leaves a folder's time as it is. So the scan
// begins a tick after the last change; some file systems count whole seconds.
FolderIndex settled_scan(const std::filesystem::path& root) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr int kTries = 5;  // the clock of a file server may be ahead of ours
  for (int attempt = 1;; ++attempt) {
    const auto start =
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch());
    FolderIndex index = scan_folder(root);
    const bool whole_seconds =
        std::all_of(index.folders.begin(), index.folders.end(),
                    [](const FolderStamp& folder) { return folder.modified % kSecond == 0; });
    const std::int64_t tick = whole_seconds ? 2 * kSecond : kSecond / 50;
    const std::int64_t wait = newest(index) + tick - start.count();
    if (wait < 0 || attempt == kTries) {
      return index;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(wait, 2 * kSecond)));
  }
}

}  // namespace

FolderIndex write_folder_cache(const std::filesystem::path& root,
                               const std::filesystem::path& file) {
  FolderIndex index = settled_scan(root);
  write_file_atomically(file.empty() ? root / kFolderCacheName : file, serialize(index));
  return index;
}

std::optional<FolderIndex> load_folder_cache(const std::filesystem::path& root,
                                             const std::filesystem::path& file) {
  const std::filesystem::path path = file.empty() ? root / kFolderCacheName : file;
  std::error_code ignored;
  if (file.empty() && !std::filesystem::exists(path, ignored)) {
    return std::nullopt;
  }
  std::string reason;
  try {
    FolderIndex index = parse(read_regular_file(path));
    reason = difference(root, index);
    if (reason.empty()) {
      return index;
    }
  } catch (const DataError& error) {
    reason = error.what();
  }
  log_warning("the index ", path.string(), " is not used: ", reason,
              "; all folders are listed instead; renew it by `datatool index ", root.string(),
              file.empty() ? "" : concat(" --output ", path.string()), "`");
  return std::nullopt;
}

}  // namespace temper
