#pragma once
// The text of the ranks on its way to log files and the console.

#include <poll.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace temper {

// How a piece of text ended. A redraw ends in a carriage return and shows progress.
enum class LineEnd { kNewline, kCarriageReturn };

// Cuts a stream of bytes into lines, whatever pieces it arrives in. A line that grows beyond
// kLongestLine is handed on in parts. A redraw is handed on at the end of its piece; should the
// next piece begin with a newline, the text is handed on again, as the line it was.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 16;
  using Receiver = std::function<void(std::string_view text, LineEnd end)>;

  explicit LineSplitter(Receiver receiver) : receiver_(std::move(receiver)) {}
  void feed(std::string_view bytes);
  // Hands on a last line without an end.
  void finish();

 private:
  void end_line(LineEnd end);

  Receiver receiver_;
  std::string line_;
  std::string returned_;  // text of a redraw that may still turn out to be a line
  bool after_return_ = false;
};

// Whether a line belongs to a redrawn display and not to the log.
[[nodiscard]] bool is_progress(std::string_view text, LineEnd end);

// Whether the console should show a line of a rank other than 0.
[[nodiscard]] bool is_warning_or_error(std::string_view line);

// One stream of the console. A reader that is slow or gone must not hold up the supervision, so
// text that does not fit now waits here, up to a limit beyond which it is dropped and counted.
class ConsoleStream {
 public:
  explicit ConsoleStream(int descriptor);

  // Whole lines; one system call each as long as they fit a pipe's atomic size.
  void write(std::string text);
  [[nodiscard]] bool waiting() const { return !pending_.empty(); }
  [[nodiscard]] bool is_terminal() const { return terminal_; }
  [[nodiscard]] pollfd poll_entry() const { return {descriptor_, POLLOUT, 0}; }
  void flush();
  // Waits for the reader, at most this long.
  void finish(int milliseconds);

 private:
  static constexpr std::size_t kMostPending = std::size_t{4} << 20;

  int descriptor_;
  bool terminal_;
  bool closed_ = false;
  std::deque<std::string> pending_;
  std::size_t pending_bytes_ = 0;
  std::size_t dropped_ = 0;
};

// Standard output and error of the launcher.
class Console {
 public:
  [[nodiscard]] ConsoleStream& output() { return output_; }
  [[nodiscard]] ConsoleStream& error() { return error_; }
  // Erases a redraw that stands on the screen, lest the text runs into it.
  void show(ConsoleStream& stream, std::string_view text, LineEnd end);
  // A line of the launcher or of a rank other than 0, on standard error.
  void note(std::string_view line) { show(error_, line, LineEnd::kNewline); }

 private:
  ConsoleStream output_{1};
  ConsoleStream error_{2};
  bool redraw_stands_ = false;
};

}  // namespace temper
