#include "temper/launch/job_registry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>

#include "launch/rank_process.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "temper-job 1";
constexpr std::string_view kUnfinished = ".new-";
constexpr std::size_t kMostBytes = 4096;
constexpr int kMostFiles = 1024;
constexpr int kMostThreads = 8192;

std::uint64_t checksum(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  }
  return hash;
}

std::string system_text(int code) { return std::generic_category().message(code); }

// The value of line `name value`, and takes the line off.
std::optional<std::string_view> take_line(std::string_view& text, std::string_view name) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.size() == text.size() || line.size() <= name.size() || !line.starts_with(name) ||
      line[name.size()] != ' ') {
    return std::nullopt;
  }
  text.remove_prefix(line.size() + 1);
  return line.substr(name.size() + 1);
}

template <typename Number>
bool take_number(std::string_view& text, std::string_view name, Number lowest, Number highest,
                 Number& value) {
  const auto digits = take_line(text, name);
  if (!digits) {
    return false;
  }
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  return error == std::errc() && end == digits->data() + digits->size() && value >= lowest &&
         value <= highest;
}

// Made by whoever comes first, for all users.
bool make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) {
    return ::chmod(folder.c_str(), 01777) == 0;  // past the umask
  }
  struct stat status {};
  if (errno != EEXIST || ::lstat(folder.c_str(), &status) != 0) {
    return false;
  }
  if (!S_ISDIR(status.st_mode)) {
    errno = ENOTDIR;
    return false;
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  const FileDescriptor random(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  if (!random.is_open() || ::read(random.get(), &number, sizeof number) != sizeof number) {
    number = static_cast<std::uint64_t>(::getpid());
  }
  return std::max<std::uint64_t>(number >> 1U, 1);  // fits a signed integer
}

std::string file_name(std::uint64_t number) { return concat("job-", number); }

std::string read_entry(int descriptor) {
  std::string text(kMostBytes, '\0');
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

// False also when only the tail of the file could not be written.
bool write_entry(int descriptor, const JobEntry& entry) {
  const std::string text = to_text(entry);
  const auto size = static_cast<ssize_t>(text.size());
  return ::pwrite(descriptor, text.data(), text.size(), 0) == size &&
         ::ftruncate(descriptor, size) == 0;
}

// A dead job's file; a file that is still being made is young. Others' files may not be removable.
void remove_dead(const fs::path& path, const struct stat& status, bool unfinished) {
  constexpr std::time_t kYoung = 60;
  if (!unfinished || std::time(nullptr) - status.st_mtime > kYoung) {
    ::unlink(path.c_str());
  }
}

// The entry of a file whose lock is held; removes it when nobody holds it.
std::optional<JobEntry> read_job(const fs::path& path) {
  const FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const bool unfinished = path.filename().native().starts_with(kUnfinished);
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    remove_dead(path, status, unfinished);
    return std::nullopt;
  }
  if (unfinished || errno != EWOULDBLOCK) {
    return std::nullopt;
  }
  constexpr int kAttempts = 3;  // it may be in mid-write
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (auto entry = parse_job_entry(read_entry(file.get()))) {
      return entry;
    }
  }
  log_debug("job registry: ", path.string(), " cannot be understood and is left out");
  return std::nullopt;
}

}  // namespace

std::string to_text(const JobEntry& entry) {
  const std::string body =
      concat(kMagic, "\nranks ", entry.ranks, "\ncompute ", entry.compute, "\nloader ",
             entry.loader, "\ncpus ", entry.cpus, "\nquota ", entry.quota, "\ncores ",
             to_text(entry.cores), "\ngroup ", entry.quota_group, "\n");
  return concat(body, "end ", checksum(body), "\n");
}

std::optional<JobEntry> parse_job_entry(std::string_view text) {
  const std::size_t tail = text.rfind("end ");
  if (text.size() > kMostBytes || tail == std::string_view::npos ||
      text.substr(tail) != concat("end ", checksum(text.substr(0, tail)), "\n") ||
      !text.starts_with(concat(kMagic, "\n"))) {
    return std::nullopt;
  }
  text = text.substr(0, tail);
  text.remove_prefix(kMagic.size() + 1);
  JobEntry entry;
  if (!take_number(text, "ranks", 1, kMostThreads, entry.ranks) ||
      !take_number(text, "compute", 0, kMostThreads, entry.compute) ||
      !take_number(text, "loader", 1, kMostThreads, entry.loader) ||
      !take_number(text, "cpus", 1, kMostThreads, entry.cpus) ||
      !take_number(text, "quota", 0, kMostThreads, entry.quota)) {
    return std::nullopt;
  }
  const auto cores = take_line(text, "cores");
  auto list = cores ? parse_cpu_list(*cores) : std::nullopt;
  if (!list ||
      !take_number(text, "group", std::uint64_t{0}, ~std::uint64_t{0}, entry.quota_group) ||
      !text.empty()) {
    return std::nullopt;
  }
  entry.cores = std::move(*list);
  return entry;
}

std::uint64_t quota_group_number(std::string_view name) {
  return name.empty() ? 0 : std::max<std::uint64_t>(checksum(name), 1);
}

fs::path job_registry_folder() {
  std::vector<fs::path> candidates{"/dev/shm/temper-jobs"};
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    candidates.push_back(fs::path(runtime) / "temper-jobs");
  }
  if (const char* chosen = std::getenv("TEMPER_JOBS"); chosen != nullptr && *chosen != '\0') {
    candidates = {chosen};
  }
  for (const fs::path& folder : candidates) {
    if (make_folder(folder)) {
      return folder;
    }
  }
  log_warning("other Temper jobs on this host are not seen: ", candidates.front().string(), ": ",
              system_text(errno), "; --cpus N sets this job's share of the cores");
  return {};
}

JobRegistration::JobRegistration(const fs::path& folder, const JobEntry& entry)
    : folder_(folder), entry_(entry) {
  list();
}

JobRegistration::JobRegistration(const fs::path& folder, std::uint64_t number)
    : folder_(number == 0 ? fs::path() : folder), number_(number) {
  if (folder_.empty()) {
    number_ = 0;
    return;
  }
  descriptor_ = ::open(path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor_ < 0) {
    give_up("cannot open");
  }
}

JobRegistration::~JobRegistration() {
  if (is_owner_ && number_ != 0) {
    ::unlink(path().c_str());
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

fs::path JobRegistration::path() const { return folder_ / file_name(number_); }

void JobRegistration::give_up(const std::string& what) {
  log_warning("other Temper jobs on this host do not see this one: ", what, " ", path().string(),
              ": ", system_text(errno));
  folder_.clear();
  number_ = 0;
}

// The name appears when the lock is held and the content is there.
void JobRegistration::list() {
  if (folder_.empty()) {
    return;
  }
  number_ = number_ == 0 ? random_number() : number_;
  is_owner_ = true;
  const fs::path unfinished = folder_ / concat(kUnfinished, number_);
  FileDescriptor file(
      ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  const bool listed = file.is_open() && ::fchmod(file.get(), 0644) == 0 &&
                      ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
                      write_entry(file.get(), entry_) &&
                      ::rename(unfinished.c_str(), path().c_str()) == 0;
  if (!listed) {
    give_up("cannot make");
    if (file.is_open()) {
      ::unlink(unfinished.c_str());
    }
    return;
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  descriptor_ = file.release();
}

void JobRegistration::update(const JobEntry& entry) {
  entry_ = entry;
  if (!folder_.empty() && !write_entry(descriptor_, entry_)) {
    give_up("cannot write");
  }
}

// E.g. logind clears a user's shared memory when the user logs out.
void JobRegistration::keep_listed() {
  struct stat status {};
  if (!folder_.empty() && ::fstat(descriptor_, &status) == 0 && status.st_nlink == 0) {
    list();
  }
}

std::vector<JobEntry> JobRegistration::others() const {
  std::vector<JobEntry> jobs;
  if (folder_.empty()) {
    return jobs;
  }
  std::error_code error;
  int files = 0;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_job = name.starts_with("job-") || name.starts_with(kUnfinished);
    if (!is_job || name == file_name(number_) || ++files > kMostFiles) {
      continue;
    }
    if (auto job = read_job(entry->path())) {
      jobs.push_back(std::move(*job));
    }
  }
  return jobs;
}

}  // namespace temper
