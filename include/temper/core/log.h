#pragma once
// Logging of one process. Text goes to standard error, one write per line, with time and level;
// ranks of a run also carry their rank. Threads may log at any time.

#include <filesystem>
#include <string>
#include <string_view>

#include "temper/core/text.h"

namespace temper {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Throws ConfigError for any other text than debug, info, warning, error.
[[nodiscard]] LogLevel parse_log_level(std::string_view name);

// `prefix` stands before each message, e.g. "rank 1"; empty for none.
void configure_log(LogLevel level, const std::string& prefix);

// From here on each line is appended to this file, too. SystemError when it cannot be opened.
void add_log_file(const std::filesystem::path& path);

void log_message(LogLevel level, const std::string& message);

template <typename... Parts>
void log_debug(const Parts&... parts) {
  log_message(LogLevel::kDebug, concat(parts...));
}
template <typename... Parts>
void log_info(const Parts&... parts) {
  log_message(LogLevel::kInfo, concat(parts...));
}
template <typename... Parts>
void log_warning(const Parts&... parts) {
  log_message(LogLevel::kWarning, concat(parts...));
}
template <typename... Parts>
void log_error(const Parts&... parts) {
  log_message(LogLevel::kError, concat(parts...));
}

}  // namespace temper
