#include "temper/checkpoint/directory.h"

#include <algorithm>
#include <charconv>
#include <compare>
#include <tuple>

#include "temper/checkpoint/container.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEpochPrefix = "epoch-";
constexpr std::string_view kExtension = ".pt";

std::optional<int> epoch_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kEpochPrefix) || !name.ends_with(kExtension)) {
    return std::nullopt;
  }
  int epoch = 0;
  const char* end = name.data() + name.size() - kExtension.size();
  const auto [stop, code] = std::from_chars(name.data() + kEpochPrefix.size(), end, epoch);
  return code == std::errc() && stop == end ? std::optional(epoch) : std::nullopt;
}

// Sorted by name, so that the outcome does not depend on the file system.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    files.push_back(entry.path());
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    throw SystemError(concat("cannot list ", folder.string()), code.value());
  }
  std::ranges::sort(files);
  return files;
}

void remove_file(const fs::path& path) {
  std::error_code code;
  fs::remove(path, code);
  if (code) {
    throw SystemError(concat("cannot remove ", path.string()), code.value());
  }
}

void copy_to(const fs::path& from, const fs::path& to) {
  replace_file_atomically(to, [&](const fs::path& temporary) {
    std::error_code code;
    fs::copy_file(from, temporary, fs::copy_options::overwrite_existing, code);
    if (code) {
      throw SystemError(concat("cannot copy ", from.string(), " to ", to.string()), code.value());
    }
  });
}

void remove_interrupted(const fs::path& folder) {
  for (const fs::path& path : files_of(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(".") && name.find(kExtension) != std::string::npos &&
        name.ends_with(".tmp")) {
      remove_file(path);
    }
  }
}

void remove_old_epochs(const fs::path& folder, int keep) {
  std::vector<std::pair<int, fs::path>> epochs;
  for (const fs::path& path : files_of(folder)) {
    if (const std::optional<int> epoch = epoch_of(path)) {
      epochs.emplace_back(*epoch, path);
    }
  }
  std::ranges::sort(epochs, std::greater());
  for (std::size_t i = static_cast<std::size_t>(keep); i < epochs.size(); ++i) {
    remove_file(epochs[i].second);
  }
}

// Samples seen, then the epoch of the name; -1 when unknown.
std::pair<std::int64_t, int> progress_of(const Value& checkpoint, const fs::path& path) {
  std::int64_t samples = -1;
  const Value* progress =
      checkpoint.holds<ValueDict>() ? checkpoint.as_dict().find("progress") : nullptr;
  if (progress != nullptr && progress->holds<ValueDict>()) {
    const Value* count = progress->as_dict().find("samples");
    if (count != nullptr && count->holds<std::int64_t>()) {
      samples = count->as_int();
    }
  }
  return {samples, epoch_of(path).value_or(-1)};
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(fs::path path, int keep)
    : path_(std::move(path)), keep_(keep) {
  require(keep >= 0, "keep must not be negative");
}

fs::path CheckpointDirectory::epoch(int epoch) const {
  std::string number = std::to_string(epoch);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return path_ / concat(kEpochPrefix, number, kExtension);
}

void CheckpointDirectory::save(const Value& checkpoint, const CheckpointNames& names) const {
  std::error_code code;
  fs::create_directories(path_, code);
  if (code) {
    throw SystemError(concat("cannot make the folder ", path_.string()), code.value());
  }
  remove_interrupted(path_);
  write_checkpoint(last(), checkpoint);
  if (names.best) {
    copy_to(last(), best());
  }
  if (names.epoch && keep_ > 0) {
    copy_to(last(), epoch(*names.epoch));
    remove_old_epochs(path_, keep_);
  }
}

NewestCheckpoint CheckpointDirectory::newest_valid() const {
  NewestCheckpoint newest;
  const auto try_read = [&newest](const fs::path& path) -> std::optional<Value> {
    try {
      return read_checkpoint(path);
    } catch (const std::runtime_error& error) {
      newest.rejected.push_back({path, error.what()});
      return std::nullopt;
    }
  };
  std::error_code ignored;  // a file that cannot be looked at is not there to be chosen
  if (fs::exists(last(), ignored)) {
    newest.checkpoint = try_read(last());
    newest.path = newest.checkpoint ? last() : fs::path();
  }
  if (newest.checkpoint) {
    return newest;
  }
  std::pair<std::int64_t, int> progress{-1, -1};
  for (const fs::path& path : files_of(path_)) {
    if (path != best() && !epoch_of(path)) {
      continue;
    }
    std::optional<Value> candidate = try_read(path);
    if (candidate && (!newest.checkpoint || progress_of(*candidate, path) > progress)) {
      progress = progress_of(*candidate, path);
      newest.checkpoint = std::move(candidate);
      newest.path = path;
    }
  }
  return newest;
}

}  // namespace temper
