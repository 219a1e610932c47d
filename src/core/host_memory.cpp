#include "temper/core/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <vector>

#include "temper/core/text.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.empty() || end != text.data() + text.size()) {
    return std::nullopt;  // missing, or "max"
  }
  return value;
}

void read_meminfo(HostMemory& memory, const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string key;
  std::int64_t kibibytes = 0;
  std::string rest;
  while (file >> key >> kibibytes) {
    if (key == "MemTotal:") {
      memory.total = kibibytes * 1024;
    } else if (key == "MemAvailable:") {
      memory.available = kibibytes * 1024;
    }
    std::getline(file, rest);
  }
}

struct GroupFiles {
  fs::path base;
  fs::path group;
  const char* limit;
  const char* used;
};

void apply_limits(HostMemory& memory, const GroupFiles& files) {
  // v1 writes "no limit" as a number near 2^63.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  for (fs::path group = files.group;; group = group.parent_path()) {
    const auto limit = read_number(files.base / group / files.limit);
    if (limit && *limit < std::min(kNoLimit, memory.cgroup_limit.value_or(kNoLimit))) {
      memory.cgroup_limit = limit;
      memory.cgroup_used = read_number(files.base / group / files.used).value_or(0);
    }
    if (group.empty()) {
      return;
    }
  }
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
  HostMemory memory;
  read_meminfo(memory, root);
  std::ifstream groups(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const fs::path group = fs::path(fields[2]).relative_path();
    const auto controllers = split(fields[1], ',');
    if (fields[1].empty()) {
      apply_limits(memory, {root / "sys/fs/cgroup", group, "memory.max", "memory.current"});
    } else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      apply_limits(memory, {root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                            "memory.usage_in_bytes"});
    }
  }
  return memory;
}

}  // namespace temper
