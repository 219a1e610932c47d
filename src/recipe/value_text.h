#pragma once
// Values of a configuration as YAML text that reads back as the same value.

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "temper/core/text.h"
#include "temper/core/units.h"
#include "temper/recipe/config.h"

namespace temper::recipe {

[[nodiscard]] std::string value_text(bool value);
// k/255 and simple quotients are written as such.
[[nodiscard]] std::string value_text(double value);
[[nodiscard]] std::string value_text(const std::string& value);
[[nodiscard]] inline std::string value_text(std::int64_t value) { return concat(value); }
[[nodiscard]] inline std::string value_text(std::uint64_t value) { return concat(value); }
[[nodiscard]] std::string value_text(const Period& value);
[[nodiscard]] inline std::string value_text(const ByteSize& value) { return to_text(value); }
[[nodiscard]] inline std::string value_text(std::chrono::milliseconds value) {
  return to_text(value);
}

[[nodiscard]] inline std::string value_text(const TimeLimit& value) {
  return value.automatic ? "auto" : to_text(value.duration);
}

template <typename List>
[[nodiscard]] std::string list_text(const List& values) {
  std::vector<std::string> texts;
  for (const auto& value : values) {
    texts.push_back(value_text(value));
  }
  return concat('[', join(texts, ", "), ']');
}
template <typename T>
[[nodiscard]] std::string value_text(const std::vector<T>& values) {
  return list_text(values);
}
[[nodiscard]] inline std::string value_text(const std::array<double, 2>& values) {
  return list_text(values);
}

}  // namespace temper::recipe
