#include "temper/core/error.h"

#include <cerrno>
#include <string_view>
#include <system_error>

namespace temper {

SystemError::SystemError(const std::string& what, int code)
    : std::runtime_error(concat(what, ": ", std::generic_category().message(code))), code_(code) {}

void throw_errno(const std::string& what) { throw SystemError(what, errno); }

void fail_check(const std::source_location& where, const std::string& message) {
  std::string_view file = where.file_name();
  const std::size_t root = file.rfind("src/");
  if (root != std::string_view::npos) {
    file.remove_prefix(root);
  }
  throw CheckFailure(concat(file, ":", where.line(), ": check failed: ", message));
}

}  // namespace temper
