#include "recipe/value_text.h"

#include <algorithm>
#include <cmath>

namespace temper::recipe {

std::string value_text(bool value) { return value ? "true" : "false"; }

std::string value_text(double value) {
  std::string decimal = to_text(value);
  if (const std::size_t exponent = decimal.find("e-0"); exponent != std::string::npos) {
    decimal.erase(exponent + 2, 1);
  }
  if (decimal.size() < 8) {
    return decimal;
  }
  for (const int divisor : {3, 255}) {
    const double numerator = std::round(value * divisor);
    if (numerator != 0 && std::abs(numerator) < 1e6 && numerator / divisor == value) {
      return concat(to_text(numerator), '/', divisor);
    }
  }
  return decimal;
}

std::string value_text(const Period& value) {
  if (value.value != std::floor(value.value) || value.value > 1e15) {
    return to_text(value);
  }
  const auto count = static_cast<std::int64_t>(value.value);
  if (value.unit == Period::Unit::kSamples && count >= 1'000'000 && count % 1'000'000 == 0) {
    return concat(count / 1'000'000, "Msa");
  }
  constexpr std::array<std::string_view, 3> kUnits{"ep", "up", "sa"};
  return concat(count, kUnits.at(static_cast<std::size_t>(value.unit)));
}

std::string value_text(const std::string& value) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  const bool plain = !value.empty() && value.find_first_not_of(kPlain) == std::string::npos &&
                     value.front() != '-' && value != "null" && value != "Null" && value != "NULL";
  if (plain) {
    return value;
  }
  std::string out = "\"";
  for (const char character : value) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      out += '\\';
      out += character;
    } else if (code < 0x20 || code == 0x7f) {
      out += concat("\\x", kHex.at(code / 16), kHex.at(code % 16));
    } else {
      out += character;
    }
  }
  return out + '"';
}

}  // namespace temper::recipe
