#pragma once
// Text for a signal handler: prepared beforehand, completed without taking memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace temper {

// What a prepared text leaves open. The marks are plain words to JSON; kUpdateMark and kTimeMark
// are numbers there.
inline constexpr std::string_view kPhaseMark = "@PHASE@";
inline constexpr std::string_view kStackMark = "@STACK@";
inline constexpr std::string_view kTimeMark = "7777777777777777777";
inline constexpr std::uint64_t kUpdateNumber = 8888888888888888888U;
inline constexpr std::string_view kUpdateMark = "8888888888888888888";

// A buffer that drops what does not fit.
class FixedText {
 public:
  static constexpr std::size_t kSize = std::size_t{1} << 15;

  explicit constexpr FixedText(std::size_t limit = kSize) : limit_(limit) {}
  void clear() noexcept { size_ = 0; }
  void add(std::string_view text) noexcept;
  void add_number(std::uint64_t number, unsigned base = 10) noexcept;
  // As the inside of a JSON string.
  void add_escaped(std::string_view text) noexcept;
  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, kSize> bytes_{};
  std::size_t limit_;
  std::size_t size_ = 0;
};

struct CrashFacts {
  std::string_view phase;
  std::uint64_t update = 0;
  std::uint64_t seconds = 0;  // since 1970
  std::string_view stack;     // lines
};

// The prepared text with its marks replaced; phase and stack are escaped.
void complete(FixedText& out, std::string_view prepared, const CrashFacts& facts) noexcept;

// Writes to `temporary`, then renames it to `path`, or, with `keep_old`, links it there unless a
// file is there already. Async-signal-safe.
bool place_file(const char* path, const char* temporary, std::string_view content,
                bool keep_old) noexcept;

}  // namespace temper
