#pragma once
// Progress for a person: a bar that redraws itself on a terminal, or one line per interval in a
// log, and a table of the validations at the end.

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "temper/metrics/pace.h"
#include "temper/metrics/sink.h"

namespace temper {

enum class ProgressMode { kAuto, kBar, kLines, kOff };

// Throws ConfigError for any other text than auto, bar, lines, off.
[[nodiscard]] ProgressMode parse_progress_mode(std::string_view name);

// Turns kAuto into kBar when file descriptor `fd` is a terminal, else into kLines.
[[nodiscard]] ProgressMode resolve_progress_mode(ProgressMode mode, int fd = 1);

class ConsoleSink final : public Sink {
 public:
  // `mode` is not kAuto. kOff leaves the table alone. `out` must outlive the sink.
  ConsoleSink(std::ostream& out, ProgressMode mode, RunLength length,
              std::chrono::milliseconds interval = std::chrono::seconds(30),
              SteadyClock clock = std::chrono::steady_clock::now);

  void write(const TrainRecord& record) override;
  void write(const ValidationRecord& record) override;
  void write(const Event& event) override;

 private:
  void draw_bar(const TrainRecord& record);
  void clear_bar();
  void print_table();
  [[nodiscard]] std::string progress_text(const TrainRecord& record) const;

  std::ostream& out_;
  ProgressMode mode_;
  RunLength length_;
  std::chrono::milliseconds interval_;
  SteadyClock clock_;
  Pace pace_;
  std::optional<SteadyTime> line_time_;
  std::size_t bar_width_ = 0;  // characters on the terminal's line
  std::vector<ValidationRecord> validations_;
};

}  // namespace temper
