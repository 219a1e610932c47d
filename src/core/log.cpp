#include "temper/core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "temper/core/error.h"

namespace temper {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

void apply(LogLevel level, const std::string& prefix) {
  auto logger =
      std::make_shared<spdlog::logger>("temper", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(prefix.empty() ? "%H:%M:%S.%e %l: %v" : "%H:%M:%S.%e " + prefix + " %l: %v");
  logger->set_level(spdlog_level(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

LogLevel parse_log_level(std::string_view name) {
  if (name == "debug") {
    return LogLevel::kDebug;
  }
  if (name == "info") {
    return LogLevel::kInfo;
  }
  if (name == "warning") {
    return LogLevel::kWarning;
  }
  if (name == "error") {
    return LogLevel::kError;
  }
  throw ConfigError(concat("log level '", name, "': expected debug, info, warning or error"));
}

void configure_log(LogLevel level, const std::string& prefix) { apply(level, prefix); }

void add_log_file(const std::filesystem::path& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    sink->set_pattern("%H:%M:%S.%e %l: %v");
    spdlog::default_logger()->sinks().push_back(std::move(sink));
  } catch (const spdlog::spdlog_ex&) {
    throw_errno(concat("cannot open the log ", path.string()));
  }
}

void log_message(LogLevel level, const std::string& message) {
  // A function-local constant sets the pattern for programs that never call configure_log.
  static const bool initialized = [] {
    if (spdlog::default_logger()->name().empty()) {
      apply(LogLevel::kInfo, "");
    }
    return true;
  }();
  static_cast<void>(initialized);
  spdlog::default_logger_raw()->log(spdlog_level(level), spdlog::string_view_t(message));
}

}  // namespace temper
