#pragma once
// Slurm's short forms for hosts and tasks, read without asking Slurm: containers lack its programs.

#include <string>
#include <string_view>
#include <vector>

namespace temper {

// "rack[0-1]n[02-03],login" as rack0n02, rack0n03, rack1n02, rack1n03, login, in Slurm's order.
// Text after the last bracket belongs to each name. ConfigError, which shows the list, for anything
// malformed and for more than 65536 hosts.
[[nodiscard]] std::vector<std::string> parse_host_list(std::string_view text);

// Tasks of each node: "2(x3),1" as 2, 2, 2, 1. ConfigError as above.
[[nodiscard]] std::vector<int> parse_task_counts(std::string_view text);

}  // namespace temper
