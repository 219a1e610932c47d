#include "temper/launch/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "run directory";
constexpr std::string_view kChosen = "chosen:";

[[noreturn]] void refuse(const fs::path& directory, int code) {
  throw ConfigError(concat("cannot write to the run directory ", directory.string(), ": ",
                           std::generic_category().message(code),
                           "; choose another with --run-dir or run.output"));
}

// Makes the folders of a path one by one and removes those again unless `keep` is called.
class NewFolders {
 public:
  NewFolders() = default;
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;
  ~NewFolders() {
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
      ::rmdir(folder->c_str());
    }
  }

  // False when the last folder exists already.
  bool make(const fs::path& directory) {
    fs::path current;
    bool made = false;
    for (const fs::path& part : directory) {
      if (part.empty()) {
        continue;
      }
      current /= part;
      made = ::mkdir(current.c_str(), 0777) == 0;
      const int code = errno;
      std::error_code ignored;  // what mkdir said counts
      if (made) {
        made_.push_back(current);
      } else if (code != EEXIST && !fs::is_directory(current, ignored)) {
        refuse(directory, code);
      }
    }
    return made;
  }
  void keep() { made_.clear(); }

 private:
  std::vector<fs::path> made_;
};

void check_writable(const fs::path& directory) {
  const fs::path probe = directory / concat(".write-test.", ::getpid());
  const int descriptor = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    refuse(directory, errno);
  }
  const bool written = ::write(descriptor, "x", 1) == 1;
  const int code = written ? 0 : errno;
  ::close(descriptor);
  ::unlink(probe.c_str());
  if (!written) {
    refuse(directory, code);
  }
}

std::string three_digits(int number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 3 ? 3 - text.size() : 0, '0') + text;
}

// One above the highest number in use, so that a deleted run's number does not come back in the
// middle.
int next_number(const fs::path& parent) {
  int highest = 0;
  std::error_code ignored;  // a folder that is not there holds no runs; others show at mkdir
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.size() >= 3 && name.size() <= 9 &&
        name.find_first_not_of("0123456789") == std::string::npos) {
      highest = std::max(highest, std::stoi(name));
    }
  }
  return highest + 1;
}

fs::path make_numbered(NewFolders& folders, const fs::path& parent) {
  for (int number = next_number(parent);; ++number) {
    fs::path directory = parent / three_digits(number);
    if (folders.make(directory)) {
      return directory;
    }
  }
}

}  // namespace

fs::path choose_run_directory(const RunDirectoryOptions& options) {
  NewFolders folders;
  fs::path directory = options.directory;
  if (directory.empty()) {
    if (options.name.empty() || options.name == "." || options.name == ".." ||
        options.name.find('/') != std::string::npos) {
      throw ConfigError(concat("run.name '", options.name,
                               "': expected one folder name, not empty and without '/'"));
    }
    directory = make_numbered(folders, options.output / options.name);
  } else {
    folders.make(directory);
  }
  if (!fs::is_directory(directory)) {
    refuse(directory, ENOTDIR);
  }
  check_writable(directory);
  folders.keep();
  return directory;
}

fs::path share_run_directory(Store& store, int rank, const RunDirectoryOptions& options,
                             std::chrono::milliseconds timeout) {
  if (rank == 0) {
    try {
      fs::path directory = choose_run_directory(options);
      store.set(kKey, concat(kChosen, directory.string()));
      return directory;
    } catch (const ConfigError& error) {
      store.set(kKey, error.what());
      throw;
    }
  }
  const std::vector<std::string> keys = {kKey};
  if (!store.wait(keys, timeout)) {
    throw std::runtime_error(concat("rank 0 did not name the run directory within ",
                                    timeout.count(), " ms (store at ", store.address(), ":",
                                    store.port(), "); look for its first error"));
  }
  const std::string answer = store.get(kKey);
  if (!answer.starts_with(kChosen)) {
    throw ConfigError(answer);
  }
  return answer.substr(kChosen.size());
}

RunDirectoryLock::RunDirectoryLock(const std::filesystem::path& directory)
    : descriptor_(::open((directory / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) {
    throw_errno(concat("cannot open ", (directory / ".lock").string()));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    throw ConfigError(
        concat("run directory ", directory.string(),
               " is in use by another run: wait for it, or choose another --run-dir"));
  }
}

RunDirectoryLock::~RunDirectoryLock() { ::close(descriptor_); }

}  // namespace temper
