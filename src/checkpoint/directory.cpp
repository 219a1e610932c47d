#include "temper/checkpoint/directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <compare>
#include <functional>
#include <limits>
#include <tuple>

#include "checkpoint/file_io.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/newest.h"
#include "temper/checkpoint/space.h"
#include "temper/core/disk.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/text.h"

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

// By plain reads and writes, whose errors have the system's reason; std::filesystem::copy_file
// makes an input/output error of a full disk.
void copy_to(const fs::path& from, const fs::path& to) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  const FileReader source(from);
  replace_file_atomically(to, [&](const fs::path& temporary) {
    FileWriter copy(temporary, to.string());
    for (std::uint64_t offset = 0; offset < source.size(); offset += kPiece) {
      copy.write(source.read_at(offset, std::min(kPiece, source.size() - offset)));
    }
  });
}

std::vector<std::pair<int, fs::path>> epochs_of(const fs::path& folder) {
  std::vector<std::pair<int, fs::path>> epochs;
  for (const fs::path& path : files_of(folder)) {
    if (const std::optional<int> epoch = epoch_of(path)) {
      epochs.emplace_back(*epoch, path);
    }
  }
  return epochs;
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

std::string mebibytes(std::uint64_t bytes) {
  return concat(fixed(static_cast<double>(bytes) / (1 << 20), 1), " MiB");
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // a file that cannot be looked at counts as missing
  return fs::exists(path, ignored);
}

bool is_about_space(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

[[noreturn]] void explain(const SystemError& error, const Value& checkpoint, const fs::path& file) {
  if (!is_about_space(error.code())) {
    throw error;
  }
  throw SystemError(
      concat("cannot write ", file.string(), ", which takes ", mebibytes(tensor_bytes(checkpoint)),
             " where ", mebibytes(free_space(file.parent_path())),
             " are free; the files of before are kept, and the same command goes on from "
             "the newest once there is room"),
      error.code());
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(fs::path path, int keep, fs::path spared)
    : path_(std::move(path)), keep_(keep), spared_(std::move(spared)) {
  require(keep >= 0, "keep must not be negative");
}

fs::path CheckpointDirectory::epoch(int epoch) const {
  std::string number = std::to_string(epoch);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return path_ / concat(kEpochPrefix, number, kExtension);
}

void CheckpointDirectory::remove_old_epochs(int saved) const {
  std::vector<std::pair<int, fs::path>> epochs = epochs_of(path_);
  std::ranges::sort(epochs, std::greater(), [&](const auto& entry) {
    return std::tuple(entry.first <= saved, entry.first, entry.second);
  });
  int kept = 1;  // the one just written
  for (const auto& [number, file] : epochs) {
    std::error_code ignored;  // a file that is not there is no other's
    if (file != epoch(saved) && !fs::equivalent(file, spared_, ignored) && ++kept > keep_) {
      remove_file(file);
    }
  }
}

// last.pt comes last: a run that is killed before goes on from the old one and makes the other
// files again. The other way round best.pt could stay behind what last.pt says of it.
void CheckpointDirectory::save(const Value& checkpoint, const CheckpointNames& names) const {
  std::error_code code;
  fs::create_directories(path_, code);
  if (code) {
    throw SystemError(concat("cannot make the folder ", path_.string()), code.value());
  }
  remove_interrupted_writes(path_);
  std::vector<fs::path> files;
  if (names.best) {
    files.push_back(best());
  }
  if (names.epoch && keep_ > 0) {
    files.push_back(epoch(*names.epoch));
  }
  files.push_back(last());
  for (const fs::path& file : files) {
    try {
      file == files.front() ? write_checkpoint(file, checkpoint) : copy_to(files.front(), file);
    } catch (const SystemError& error) {
      explain(error, checkpoint, file);
    }
  }
  // Not before: the files are copies of the first one, and an error keeps those of before.
  if (names.epoch && keep_ > 0) {
    remove_old_epochs(*names.epoch);
  }
}

NewestCheckpoint CheckpointDirectory::newest_valid() const {
  return newest_valid_checkpoint(path_, {});
}

std::uint64_t tensor_bytes(const Value& value) {
  std::uint64_t bytes = 0;
  for_each_tensor(
      value, [&bytes](const std::string&, const at::Tensor& tensor) { bytes += tensor.nbytes(); });
  return bytes;
}

std::string missing_space(const fs::path& folder, const CheckpointFiles& files) {
  const CheckpointDirectory directory(folder, files.epochs);
  const auto epochs = static_cast<int>(epochs_of(folder).size());
  // One is the temporary file, one the epoch that makes an older one go.
  const int missing = 1 + (files.epochs > 0 ? 1 : 0) + (is_there(directory.last()) ? 0 : 1) +
                      (files.best && !is_there(directory.best()) ? 1 : 0) +
                      std::max(0, files.epochs - epochs);
  const std::uint64_t needed = files.bytes * static_cast<std::uint64_t>(missing);
  const std::uint64_t available = free_space(is_there(folder) ? folder : folder.parent_path());
  if (needed <= available) {
    return "";
  }
  return concat("the checkpoints will not fit: ", mebibytes(available), " are free in ",
                folder.parent_path().string(), ", and ", missing, " files of about ",
                mebibytes(files.bytes), " are still to come, ", mebibytes(needed),
                " in all; free space, choose another --run-dir, or lower checkpoint.keep");
}

NewestCheckpoint newest_valid_checkpoint(const fs::path& folder, const CheckpointCheck& check) {
  NewestCheckpoint newest;
  const auto try_read = [&](const fs::path& path) -> std::optional<Value> {
    try {
      Value value = read_checkpoint(path);
      if (check) {
        check(path, value);
      }
      return value;
    } catch (const DataError& error) {
      newest.rejected.push_back({path, error.what()});
    } catch (const SystemError& error) {
      newest.rejected.push_back({path, error.what()});
    }
    return std::nullopt;
  };
  std::error_code ignored;  // a file that cannot be looked at is not there to be chosen
  const CheckpointDirectory directory(folder, 0);
  const fs::path last = directory.last();
  if (fs::symlink_status(last, ignored).type() != fs::file_type::not_found) {
    newest.checkpoint = try_read(last);
    newest.path = newest.checkpoint ? last : fs::path();
  }
  // A whole save ends with last.pt, so only a newer file can hold more than it does.
  std::pair<std::int64_t, int> progress{-1, -1};
  std::optional<fs::file_time_type> saved;
  if (newest.checkpoint) {
    progress = {progress_of(*newest.checkpoint, last).first, std::numeric_limits<int>::max()};
    saved = fs::last_write_time(last, ignored);
  }
  for (const fs::path& path : files_of(folder)) {
    if (path != directory.best() && !epoch_of(path)) {
      continue;
    }
    if (saved && fs::last_write_time(path, ignored) < *saved) {
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
