#include "temper/core/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "temper/core/error.h"
#include "temper/core/text.h"

namespace temper {
namespace {

// Reads a plain decimal number from the front of `text` and removes it.
bool take_number(std::string_view& text, double& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return true;
}

}  // namespace

double parse_number(std::string_view text) {
  std::string_view rest = trim(text);
  double value = 0;
  bool good = take_number(rest, value);
  rest = trim(rest);
  if (good && rest.starts_with('/')) {
    rest = trim(rest.substr(1));
    double divisor = 0;
    good = take_number(rest, divisor) && divisor != 0;
    value /= divisor;
  }
  if (!good || !trim(rest).empty() || !std::isfinite(value)) {
    throw ConfigError(concat("expected a number such as 0.1, 5e-4 or 8/255, found '", text, "'"));
  }
  return value;
}

Period parse_period(std::string_view text) {
  std::string_view rest = trim(text);
  Period period;
  constexpr std::array<std::pair<std::string_view, std::pair<double, Period::Unit>>, 6> kUnits{{
      {"ep", {1, Period::Unit::kEpochs}},
      {"up", {1, Period::Unit::kUpdates}},
      {"sa", {1, Period::Unit::kSamples}},
      {"ksa", {1e3, Period::Unit::kSamples}},
      {"Msa", {1e6, Period::Unit::kSamples}},
      {"Gsa", {1e9, Period::Unit::kSamples}},
  }};
  if (take_number(rest, period.value) && period.value >= 0 && std::isfinite(period.value)) {
    for (const auto& [name, unit] : kUnits) {
      if (trim(rest) == name) {
        period.value *= unit.first;
        period.unit = unit.second;
        return period;
      }
    }
  }
  throw ConfigError(concat(
      "expected a number with a unit, such as 5ep (epochs), 2000up (updates) or 1Msa (samples), "
      "found '",
      text, "'"));
}

std::string to_text(const Period& period) {
  constexpr std::array<std::string_view, 3> kNames{"ep", "up", "sa"};
  return concat(to_text(period.value), kNames.at(static_cast<std::size_t>(period.unit)));
}

std::chrono::milliseconds parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{
      {{"ms", 1}, {"s", 1e3}, {"min", 6e4}, {"m", 6e4}, {"h", 36e5}, {"d", 864e5}, {"sec", 1e3}}};
  std::string_view rest = trim(text);
  double total = 0;
  bool good = !rest.empty();
  while (good && !rest.empty()) {
    double value = 0;
    good = take_number(rest, value) && value >= 0 && std::isfinite(value);
    const std::string_view unit = rest.substr(0, rest.find_first_of("0123456789. "));
    rest = trim(rest.substr(unit.size()));
    bool known = false;
    for (const auto& [name, factor] : kUnits) {
      if (unit == name) {
        total += value * factor;
        known = true;
      }
    }
    good = good && known;
  }
  if (!good || total > 1e14) {
    throw ConfigError(concat(
        "expected a duration with a unit, such as 30s, 10min or 11h30m, found '", text, "'"));
  }
  return std::chrono::milliseconds(std::llround(total));
}

std::string to_text(std::chrono::milliseconds duration) {
  const auto count = duration.count();
  if (count != 0 && count % 3'600'000 == 0) {
    return concat(count / 3'600'000, "h");
  }
  if (count != 0 && count % 60'000 == 0) {
    return concat(count / 60'000, "min");
  }
  return count % 1000 == 0 ? concat(count / 1000, "s") : concat(count, "ms");
}

namespace {
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 9> kByteUnits{
    {{"TiB", std::uint64_t{1} << 40},
     {"GiB", std::uint64_t{1} << 30},
     {"MiB", std::uint64_t{1} << 20},
     {"KiB", std::uint64_t{1} << 10},
     {"TB", 1'000'000'000'000},
     {"GB", 1'000'000'000},
     {"MB", 1'000'000},
     {"kB", 1'000},
     {"B", 1}}};
}  // namespace

ByteSize parse_byte_size(std::string_view text) {
  std::string_view rest = trim(text);
  double value = 0;
  if (take_number(rest, value) && value >= 0 && value < 1e15) {
    for (const auto& [name, factor] : kByteUnits) {
      if (trim(rest) == name) {
        const double bytes = value * static_cast<double>(factor);
        if (bytes < 9e18) {
          return {static_cast<std::uint64_t>(bytes)};
        }
      }
    }
  }
  throw ConfigError(
      concat("expected a size with a unit, such as 512MiB or 4GiB, found '", text, "'"));
}

std::string to_text(const ByteSize& size) {
  for (const auto& [name, factor] : kByteUnits) {
    if (size.bytes != 0 && size.bytes % factor == 0) {
      return concat(size.bytes / factor, name);
    }
  }
  return concat(size.bytes, "B");
}

}  // namespace temper
