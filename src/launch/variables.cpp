#include "launch/variables.h"

#include <charconv>
#include <vector>

#include "temper/core/error.h"

namespace temper {

const std::string* find(const EnvironmentVariables& variables, const std::string& name) {
  const auto entry = variables.find(name);
  return entry == variables.end() || entry->second.empty() ? nullptr : &entry->second;
}

int number(const EnvironmentVariables& variables, const std::string& name, int lowest,
           int highest) {
  const std::string* text = find(variables, name);
  require(text != nullptr, name, " is read before it is checked");
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < lowest ||
      value > highest) {
    throw ConfigError(concat("environment variable ", name, "='", *text,
                             "': expected a whole number from ", lowest, " to ", highest));
  }
  return value;
}

int number_or(const EnvironmentVariables& variables, const std::string& name, int lowest,
              int fallback) {
  return find(variables, name) == nullptr ? fallback : number(variables, name, lowest);
}

bool more_than_one(const EnvironmentVariables& variables, const char* name) {
  return number_or(variables, name, 0, 0) > 1;
}

void require_all(const EnvironmentVariables& variables, std::initializer_list<const char*> names,
                 std::string_view who, std::string_view advice) {
  std::vector<std::string> present;
  std::vector<std::string> missing;
  for (const char* name : names) {
    (find(variables, name) != nullptr ? present : missing).emplace_back(name);
  }
  if (!missing.empty()) {
    throw ConfigError(concat(who, ": present ", present.empty() ? "none" : join(present, ", "),
                             "; missing ", join(missing, ", "), "; ", advice));
  }
}

void require_below(int value, int bound, const char* value_name, const char* bound_name) {
  if (value >= bound) {
    throw ConfigError(concat("the environment contradicts itself: ", value_name, "=", value,
                             " must be below ", bound_name, "=", bound,
                             "; unset what is left over from another launcher, or choose with "
                             "--launcher"));
  }
}

std::uint16_t derived_port(std::string_view job) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char sign : job) {
    hash = (hash ^ static_cast<unsigned char>(sign)) * 1099511628211U;
  }
  constexpr std::uint64_t kFirst = 20000;
  constexpr std::uint64_t kCount = 20000;
  return static_cast<std::uint16_t>(kFirst + hash % kCount);
}

}  // namespace temper
