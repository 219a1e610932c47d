#include "temper/launch/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "launch/attempt.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/log.h"

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

bool is_number(const std::string& name) {
  return name.size() >= 3 && name.size() <= 9 &&
         name.find_first_not_of("0123456789") == std::string::npos;
}

// One above the highest number in use, so that a deleted run's number does not come back in the
// middle.
int next_number(const fs::path& parent) {
  int highest = 0;
  std::error_code ignored;  // a folder that is not there holds no runs; others show at mkdir
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_number(name)) {
      highest = std::max(highest, std::stoi(name));
    }
  }
  return highest + 1;
}

bool have_one_in_common(const std::vector<std::string>& left,
                        const std::vector<std::string>& right) {
  return std::ranges::any_of(left, [&](const std::string& entry) {
    return std::ranges::find(right, entry) != right.end();
  });
}

// Of run.json; empty for another kind of run, or none.
LaunchIdentity identity_in(const fs::path& run_file) {
  try {
    const nlohmann::json launch = nlohmann::json::parse(read_file(run_file)).at("launch");
    return {.job = launch.value("job", ""),
            .run_id = launch.at("run_id").get<std::string>(),
            .agents = launch.at("agents").get<std::vector<std::string>>()};
  } catch (const std::exception&) {
    return {};
  }
}

bool belongs_to(const fs::path& run_file, const LaunchIdentity& identity) {
  const LaunchIdentity noted = identity_in(run_file);
  return noted.run_id == identity.run_id && have_one_in_common(noted.agents, identity.agents);
}

// Of the attempt before a restart; the newest counts.
std::optional<fs::path> find_restarted(const fs::path& parent, const LaunchIdentity& identity) {
  std::optional<fs::path> found;
  std::error_code ignored;  // a folder that is not there holds no runs
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const fs::path& path = entry.path();
    if (is_number(path.filename().string()) && (!found || path.filename() > found->filename()) &&
        belongs_to(path / "run.json", identity)) {
      found = path;
    }
  }
  return found;
}

fs::path make_numbered(NewFolders& folders, const fs::path& parent) {
  for (int number = next_number(parent);; ++number) {
    fs::path directory = parent / three_digits(number);
    if (folders.make(directory)) {
      return directory;
    }
  }
}

fs::path default_directory(NewFolders& folders, const RunDirectoryOptions& options) {
  const fs::path parent = options.output / options.name;
  if (!options.job.empty()) {
    folders.make(parent / options.job);
    return parent / options.job;
  }
  if (options.identity && options.identity->restart_count > 0) {
    if (const auto found = find_restarted(parent, *options.identity)) {
      return *found;
    }
    log_warning("restart ", options.identity->restart_count,
                " of torchrun finds no run directory of an earlier attempt below ", parent.string(),
                " and begins a new one");
  }
  return make_numbered(folders, parent);
}

// A restart may come before the rank has got so far as to write all of it.
void note_identity(const fs::path& directory, const RunDirectoryOptions& options) {
  const fs::path file = directory / "run.json";
  if (options.identity && !fs::exists(file)) {
    write_file_atomically(file, concat("{\"launch\": ", to_json(*options.identity), "}\n"));
  }
}

}  // namespace

std::string to_json(const LaunchIdentity& identity) {
  const nlohmann::json json = {{"job", identity.job},
                               {"run_id", identity.run_id},
                               {"master", identity.master},
                               {"agents", identity.agents},
                               {"restart_count", identity.restart_count}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_restart_of(const fs::path& run_file, const LaunchIdentity& identity, int requeues) {
  return (identity.restart_count > 0 && belongs_to(run_file, identity)) ||
         (requeues > 0 && !identity.job.empty() && identity_in(run_file).job == identity.job);
}

fs::path choose_run_directory(const RunDirectoryOptions& options) {
  NewFolders folders;
  fs::path directory = options.directory;
  if (directory.empty()) {
    if (options.name.empty() || options.name == "." || options.name == ".." ||
        options.name.find('/') != std::string::npos) {
      throw ConfigError(concat("run.name '", options.name,
                               "': expected one folder name, not empty and without '/'"));
    }
    directory = default_directory(folders, options);
  } else {
    folders.make(directory);
  }
  if (!fs::is_directory(directory)) {
    refuse(directory, ENOTDIR);
  }
  check_writable(directory);
  note_identity(directory, options);
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

int share_attempt(Store* store, int rank, const fs::path& directory,
                  std::chrono::milliseconds timeout) {
  constexpr const char* kAttemptKey = "attempt";
  if (rank == 0) {
    const int number = start_attempt(directory).number;
    if (store != nullptr) {
      store->set(kAttemptKey, std::to_string(number));
    }
    return number;
  }
  const std::vector<std::string> keys = {kAttemptKey};
  if (!store->wait(keys, timeout)) {
    throw LostPeerError("rank 0 did not start the logs of this attempt in time");
  }
  return std::stoi(store->get(kAttemptKey));
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
