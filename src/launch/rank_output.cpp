#include "launch/rank_output.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "temper/core/text.h"

namespace temper {
namespace {

constexpr std::string_view kEraseLine = "\x1b[2K";

bool accepts_bytes(int descriptor, int milliseconds) {
  pollfd entry{descriptor, POLLOUT, 0};
  return ::poll(&entry, 1, milliseconds) > 0;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n') {
      if (!returned_.empty()) {
        line_ = std::exchange(returned_, {});
      }
      after_return_ = false;
      end_line(LineEnd::kNewline);
      continue;
    }
    returned_.clear();
    if (std::exchange(after_return_, byte == '\r')) {
      end_line(LineEnd::kCarriageReturn);
    }
    if (byte != '\r') {
      line_ += byte;
      if (line_.size() == kLongestLine) {
        end_line(LineEnd::kNewline);
      }
    }
  }
  if (after_return_ && !line_.empty()) {
    after_return_ = false;
    returned_ = line_;
    end_line(LineEnd::kCarriageReturn);
  }
}

void LineSplitter::finish() {
  after_return_ = false;
  if (!line_.empty()) {
    end_line(LineEnd::kNewline);
  }
}

void LineSplitter::end_line(LineEnd end) {
  const std::string line = std::exchange(line_, {});
  if (end == LineEnd::kNewline || !line.empty()) {
    receiver_(line, end);
  }
}

bool is_progress(std::string_view text, LineEnd end) {
  return end == LineEnd::kCarriageReturn || text.starts_with(kEraseLine);
}

bool is_warning_or_error(std::string_view line) {
  constexpr std::array<std::string_view, 4> kStarts = {
      "warning:", "error:", "critical:", "terminate called"};
  constexpr std::array<std::string_view, 3> kLevels = {" warning: ", " error: ", " critical: "};
  constexpr std::size_t kPrefix = 40;  // time and rank of a log line stand before its level
  const std::string_view head = line.substr(0, kPrefix);
  return std::ranges::any_of(kStarts, [&](auto start) { return line.starts_with(start); }) ||
         std::ranges::any_of(kLevels, [&](auto level) { return head.find(level) != head.npos; });
}

ConsoleStream::ConsoleStream(int descriptor)
    : descriptor_(descriptor), terminal_(::isatty(descriptor) == 1) {}

void ConsoleStream::write(std::string text) {
  if (closed_ || text.empty()) {
    return;
  }
  if (pending_bytes_ + text.size() > kMostPending) {
    ++dropped_;
    return;
  }
  pending_bytes_ += text.size();
  pending_.push_back(std::move(text));
  flush();
}

void ConsoleStream::flush() {
  while (!pending_.empty() && accepts_bytes(descriptor_, 0)) {
    std::string& text = pending_.front();
    // A blocking descriptor that is ready takes this much without blocking.
    const std::size_t part = std::min(text.size(), std::size_t{PIPE_BUF});
    const ssize_t count = ::write(descriptor_, text.data(), part);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
      return;
    }
    if (count < 0) {
      closed_ = true;
      pending_.clear();
      pending_bytes_ = 0;
      return;
    }
    pending_bytes_ -= static_cast<std::size_t>(count);
    text.erase(0, static_cast<std::size_t>(count));
    if (text.empty()) {
      pending_.pop_front();
    }
  }
  if (pending_.empty() && dropped_ > 0) {
    write(concat(std::exchange(dropped_, 0),
                 " lines were not shown, the console was too slow; the logs hold them\n"));
  }
}

void ConsoleStream::finish(int milliseconds) {
  flush();
  while (!pending_.empty() && accepts_bytes(descriptor_, milliseconds)) {
    flush();
  }
}

void Console::show(ConsoleStream& stream, std::string_view text, LineEnd end) {
  const bool erase = redraw_stands_ && stream.is_terminal() && !text.starts_with(kEraseLine);
  redraw_stands_ = end == LineEnd::kCarriageReturn;
  stream.write(concat(erase ? kEraseLine : "", text, redraw_stands_ ? '\r' : '\n'));
}

}  // namespace temper
