#pragma once
// status.json of a run whose ranks could not write its last word themselves.

#include <filesystem>
#include <string_view>

namespace temper {

inline constexpr std::string_view kStateFailed = "failed";
inline constexpr std::string_view kStateStopped = "stopped";

// Replaces the state `running`; any other, or no file, stays as it is. On a full disk the file is
// changed in place, which takes no space. SystemError when neither is possible.
void end_running_state(const std::filesystem::path& run_directory, std::string_view state);

}  // namespace temper
