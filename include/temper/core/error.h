#pragma once
// The kinds of errors. A ConfigError is the user's mistake and ends a program with status 2; a
// DataError is damaged data and a SystemError a refusal of the system, both with the place; a
// failed `require` is a bug of Temper.

#include <source_location>
#include <stdexcept>
#include <string>

#include "temper/core/text.h"

namespace temper {

class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What all ranks throw together, with the same text: the main rank alone speaks of it.
class AgreedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SystemError : public std::runtime_error {
 public:
  // `code` is an errno value; its text is appended to `what`.
  SystemError(const std::string& what, int code);
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

// Throws SystemError with the current errno.
[[noreturn]] void throw_errno(const std::string& what);

class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A condition together with the place of the check.
struct Condition {
  // Implicit on purpose: the default argument then names the caller's line.
  template <typename Bool>
    requires std::is_constructible_v<bool, Bool>
  Condition(const Bool& condition,  // NOLINT(google-explicit-constructor)
            std::source_location location = std::source_location::current())
      : holds(static_cast<bool>(condition)), where(location) {}
  bool holds;
  std::source_location where;
};

[[noreturn]] void fail_check(const std::source_location& where, const std::string& message);

// Throws CheckFailure with file and line when the condition does not hold.
template <typename... Parts>
void require(const Condition& condition, const Parts&... message) {
  if (!condition.holds) [[unlikely]] {
    fail_check(condition.where, concat(message...));
  }
}

}  // namespace temper
