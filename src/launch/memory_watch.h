#pragma once
// Whether the kernel ended a rank because memory ran out: its counters before and after.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace temper {

// What the kernel counts and limits for this process: its cgroup and the groups above (v1 and v2),
// and the whole host. What cannot be read is absent.
struct MemoryState {
  // Processes that were ended because memory ran out, by where it was counted: the folder of a
  // cgroup, or "host".
  std::map<std::string, std::int64_t> kills{};
  std::optional<std::int64_t> limit{};  // bytes, the lowest of the groups
  std::optional<std::int64_t> peak{};   // bytes, of the group with that limit
  std::string limited_by{};             // its folder
  std::optional<std::int64_t> host_total{};
  std::optional<std::int64_t> host_available{};
  std::int64_t shared_used = 0;  // bytes in /dev/shm
};

// `root` stands in for "/"; for tests.
[[nodiscard]] MemoryState read_memory_state(const std::filesystem::path& root = "/");

struct KillVerdict {
  bool out_of_memory = false;
  std::string text{};  // who ended the process as far as visible, and the numbers
};

// For a SIGKILL that the launcher did not send, with the states before the start and after the
// death.
[[nodiscard]] KillVerdict judge_kill(const MemoryState& before, const MemoryState& after);

// "1.5 GiB", "220 MiB"
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

}  // namespace temper
