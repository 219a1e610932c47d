#include "launch/crash_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace temper {

void FixedText::add(std::string_view text) noexcept {
  const std::size_t count = std::min(text.size(), limit_ - size_);
  std::copy_n(text.begin(), count, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
  size_ += count;
}

void FixedText::add_number(std::uint64_t number, unsigned base) noexcept {
  std::array<char, 24> digits{};
  std::size_t count = 0;
  do {
    digits[count++] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number != 0);
  while (count > 0) {
    add({&digits[--count], 1});
  }
}

void FixedText::add_escaped(std::string_view text) noexcept {
  for (const char& sign : text) {
    if (sign == '\n') {
      add("\\n");
    } else if (sign == '"' || sign == '\\') {
      add("\\");
      add({&sign, 1});
    } else if (static_cast<unsigned char>(sign) >= 0x20) {
      add({&sign, 1});
    }
  }
}

void complete(FixedText& out, std::string_view prepared, const CrashFacts& facts) noexcept {
  while (!prepared.empty()) {
    const std::size_t phase = prepared.find(kPhaseMark);
    const std::size_t stack = prepared.find(kStackMark);
    const std::size_t time = prepared.find(kTimeMark);
    const std::size_t update = prepared.find(kUpdateMark);
    const std::size_t next = std::min({phase, stack, time, update});
    out.add(prepared.substr(0, next));
    if (next == std::string_view::npos) {
      return;
    }
    std::size_t length = 0;
    if (next == phase) {
      out.add_escaped(facts.phase);
      length = kPhaseMark.size();
    } else if (next == stack) {
      out.add_escaped(facts.stack);
      length = kStackMark.size();
    } else if (next == time) {
      out.add_number(facts.seconds);
      length = kTimeMark.size();
    } else {
      out.add_number(facts.update);
      length = kUpdateMark.size();
    }
    prepared.remove_prefix(next + length);
  }
}

bool place_file(const char* path, const char* temporary, std::string_view content,
                bool keep_old) noexcept {
  const int descriptor = ::open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return false;
  }
  bool whole = true;
  while (whole && !content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count > 0) {
      content.remove_prefix(static_cast<std::size_t>(count));
    } else {
      whole = count < 0 && errno == EINTR;
    }
  }
  ::close(descriptor);
  if (keep_old) {
    whole = whole && ::link(temporary, path) == 0;
    ::unlink(temporary);
    return whole;
  }
  if (whole && ::rename(temporary, path) == 0) {
    return true;
  }
  ::unlink(temporary);
  return false;
}

}  // namespace temper
