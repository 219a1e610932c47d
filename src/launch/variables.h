#pragma once
// Reading environment variables, with errors that name them.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "temper/launch/environment.h"

namespace temper {

inline constexpr int kAnyNumber = std::numeric_limits<int>::max();

// Null when it is not set or empty.
[[nodiscard]] const std::string* find(const EnvironmentVariables& variables,
                                      const std::string& name);
// The variable must be set.
[[nodiscard]] int number(const EnvironmentVariables& variables, const std::string& name, int lowest,
                         int highest = kAnyNumber);
[[nodiscard]] int number_or(const EnvironmentVariables& variables, const std::string& name,
                            int lowest, int fallback);
// False when it is not set.
[[nodiscard]] bool more_than_one(const EnvironmentVariables& variables, const char* name);

// ConfigError "<who>: present ...; missing ...; <advice>" when one is missing.
void require_all(const EnvironmentVariables& variables, std::initializer_list<const char*> names,
                 std::string_view who, std::string_view advice);

void require_below(int value, int bound, const char* value_name, const char* bound_name);

// 20000 to 39999, the same for all ranks that know the same job.
[[nodiscard]] std::uint16_t derived_port(std::string_view job);

}  // namespace temper
