#include "launch/memory_watch.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string_view>
#include <vector>

#include "temper/core/text.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// The number behind `key` in lines of "key value" or "key: value kB".
std::optional<std::int64_t> find_value(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::string_view rest = line;
    if (!rest.starts_with(key)) {
      continue;
    }
    rest.remove_prefix(key.size());
    if (rest.starts_with(':')) {
      rest.remove_prefix(1);
    } else if (!rest.starts_with(' ')) {
      continue;
    }
    return to_number(trim(rest));
  }
  return std::nullopt;
}

std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? to_number(line) : std::nullopt;
}

// "max", or what v1 writes for no limit: almost the largest number.
bool is_limit(std::int64_t bytes) {
  return bytes > 0 && bytes < std::numeric_limits<std::int64_t>::max() / 4;
}

void add_group(const fs::path& folder, bool unified, MemoryState& state) {
  const auto kills = unified ? find_value(folder / "memory.events", "oom_kill")
                             : find_value(folder / "memory.oom_control", "oom_kill");
  if (kills) {
    state.kills[folder.string()] = *kills;
  }
  const auto limit = read_number(folder / (unified ? "memory.max" : "memory.limit_in_bytes"));
  if (limit && is_limit(*limit) && (!state.limit || *limit < *state.limit)) {
    state.limit = limit;
    state.limited_by = folder.string();
    state.peak = read_number(folder / (unified ? "memory.peak" : "memory.max_usage_in_bytes"));
  }
}

// The folder of a group and those above it, as they are mounted. In a container the path may lead
// outside of what is visible; then only the top is.
void add_groups(const fs::path& base, const fs::path& group, bool unified, MemoryState& state) {
  std::error_code ignored;  // a group that is not visible counts nothing
  for (fs::path path = group.relative_path();; path = path.parent_path()) {
    const fs::path folder = path.empty() ? base : base / path;
    if (fs::is_directory(folder, ignored)) {
      add_group(folder, unified, state);
    }
    if (path.empty()) {
      return;
    }
  }
}

void add_cgroups(const fs::path& root, MemoryState& state) {
  std::ifstream groups(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const std::vector<std::string> fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const fs::path mounts = root / "sys/fs/cgroup";
    if (fields[1].empty()) {
      add_groups(mounts, fields[2], true, state);
      continue;
    }
    const std::vector<std::string> controllers = split(fields[1], ',');
    if (std::ranges::find(controllers, "memory") != controllers.end()) {
      add_groups(mounts / "memory", fields[2], false, state);
    }
  }
}

std::optional<std::int64_t> kibibytes(const fs::path& path, std::string_view key) {
  const auto value = find_value(path, key);
  return value ? std::optional(*value * 1024) : std::nullopt;
}

std::string numbers_text(const MemoryState& state) {
  std::string text;
  if (state.limit) {
    text += concat("; limit of the cgroup ", bytes_text(*state.limit));
    if (state.peak) {
      text += concat(", its peak ", bytes_text(*state.peak));
    }
  }
  if (state.host_total && state.host_available) {
    text += concat("; host memory ", bytes_text(*state.host_total), ", available now ",
                   bytes_text(*state.host_available));
  }
  if (state.shared_used > 0) {
    text += concat("; in /dev/shm ", bytes_text(state.shared_used));
  }
  return text;
}

}  // namespace

MemoryState read_memory_state(const fs::path& root) {
  MemoryState state;
  add_cgroups(root, state);
  if (const auto kills = find_value(root / "proc/vmstat", "oom_kill")) {
    state.kills["host"] = *kills;
  }
  state.host_total = kibibytes(root / "proc/meminfo", "MemTotal");
  state.host_available = kibibytes(root / "proc/meminfo", "MemAvailable");
  struct statvfs shared {};
  if (::statvfs((root / "dev/shm").c_str(), &shared) == 0) {
    state.shared_used = static_cast<std::int64_t>((shared.f_blocks - shared.f_bfree) *
                                                  static_cast<std::uint64_t>(shared.f_frsize));
  }
  return state;
}

KillVerdict judge_kill(const MemoryState& before, const MemoryState& after) {
  std::string counted;  // the innermost group says most, the host alone least
  for (const auto& [where, kills] : after.kills) {
    const auto earlier = before.kills.find(where);
    const std::int64_t start = earlier == before.kills.end() ? 0 : earlier->second;
    const bool better =
        counted.empty() || counted == "host" || (where != "host" && where.size() > counted.size());
    if (kills > start && better) {
      counted = where;
    }
  }
  if (counted.empty()) {
    return {.out_of_memory = false,
            .text = concat(after.kills.empty()
                               ? "no counter of the kernel's out-of-memory killer is readable here"
                               : "not the kernel's out-of-memory killer as far as visible",
                           ": a time limit, scancel or another user", numbers_text(after))};
  }
  const std::string where =
      counted == "host" ? "on this host (perhaps another process)" : concat("in ", counted);
  return {.out_of_memory = true,
          .text = concat("the kernel's out-of-memory killer: its counter rose ", where,
                         numbers_text(after))};
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double kMebi = 1 << 20;
  const double value = static_cast<double>(bytes) / kMebi;
  return value >= 1024 ? concat(fixed(value / 1024, 1), " GiB") : concat(fixed(value, 0), " MiB");
}

}  // namespace temper
