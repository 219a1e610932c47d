#pragma once
// Logging of one process. Text goes to standard error, one write per line, with time and level;
// ranks of a run also carry their rank. Threads may log at any time.

#include <string>
#include <string_view>

#include "temper/core/text.h"

namespace temper {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Throws ConfigError for any other text than debug, info, warning, error.
[[nodiscard]] LogLevel parse_log_level(std::string_view name);

// `prefix` stands before each message, e.g. "rank 1"; empty for none.
void configure_log(LogLevel level, const std::string& prefix);

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
