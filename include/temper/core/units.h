#pragma once
// Quantities with units as they stand in a configuration: rationals, lengths of training,
// durations, byte sizes. Each parser throws ConfigError with what was expected.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace temper {

// A decimal number or a quotient of two: "8/255", "0.031", "5e-4".
[[nodiscard]] double parse_number(std::string_view text);

// A length of training or a frequency: 5ep, 2000up, 1Msa (samples; k, M and G are decimal).
struct Period {
  enum class Unit { kEpochs, kUpdates, kSamples };
  double value = 0;
  Unit unit = Unit::kEpochs;

  [[nodiscard]] bool is_zero() const { return value == 0; }
  friend bool operator==(const Period&, const Period&) = default;
};
[[nodiscard]] Period parse_period(std::string_view text);
[[nodiscard]] std::string to_text(const Period& period);

// "30s", "10min", "11h30m", "250ms", "2d"; a bare number is an error.
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view text);
[[nodiscard]] std::string to_text(std::chrono::milliseconds duration);

// "512MiB", "4GiB", "2GB", "100B"; a bare number is an error.
struct ByteSize {
  std::uint64_t bytes = 0;
  friend bool operator==(const ByteSize&, const ByteSize&) = default;
};
[[nodiscard]] ByteSize parse_byte_size(std::string_view text);
[[nodiscard]] std::string to_text(const ByteSize& size);

}  // namespace temper
