#pragma once
// Text without a formatting library: LibTorch and spdlog bring different versions of fmt, so public
// headers use neither.

#include <charconv>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace temper {

// The shortest decimal text that reads back as the same number.
[[nodiscard]] std::string to_text(double value);

namespace detail {
template <typename T>
void append_text(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += value;
  } else if constexpr (std::integral<T>) {
    out += std::to_string(value);
  } else if constexpr (std::floating_point<T>) {
    out += to_text(static_cast<double>(value));
  } else {
    out += std::string_view(value);
  }
}
}  // namespace detail

// Joins strings, characters and numbers to one string.
template <typename... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append_text(out, parts), ...);
  return out;
}

[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

[[nodiscard]] std::string_view trim(std::string_view text);

// A number with a fixed count of digits after the point; zero has no sign.
[[nodiscard]] std::string fixed(double value, int digits);

// The candidate with the fewest edits from `word`; empty when none is close enough to be meant.
[[nodiscard]] std::string closest_match(std::string_view word,
                                        std::span<const std::string> candidates);

}  // namespace temper
