#pragma once
// Memory of this host, and what the cgroup of this process may take of it.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace temper {

struct HostMemory {
  std::int64_t total = 0;      // bytes, all
  std::int64_t available = 0;  // without swapping; 0: the system does not say
  // The lowest limit of the own cgroup and its parents, v1 or v2, and what that group uses now,
  // page cache included; nothing without a limit.
  std::optional<std::int64_t> cgroup_limit{};
  std::int64_t cgroup_used = 0;
};

// `root` replaces "/"; for tests. Files that are missing count as no limit.
[[nodiscard]] HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace temper
