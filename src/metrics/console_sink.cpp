#include "temper/metrics/console_sink.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "temper/core/error.h"
#include "temper/core/text.h"

namespace temper {
namespace {

constexpr std::size_t kBarCells = 20;
constexpr std::size_t kTableRows = 10;

std::size_t terminal_columns() {
  winsize size{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : 120;
}

std::string percent(double fraction) {
  return std::isfinite(fraction) ? concat(fixed(100 * fraction, 2), " %") : "-";
}

std::string pad_left(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

double robust_of(const ValidationRecord& record) {
  return record.robust_accuracy.value_or(kNotANumber);
}

// Coarse: the rest of a run is not known to the second.
std::string rest_text(double seconds) {
  const auto rest = static_cast<std::int64_t>(std::llround(seconds));
  if (rest < 100) {
    return concat(rest, "s");
  }
  const std::int64_t minutes = (rest + 30) / 60;
  return minutes < 100 ? concat(minutes, "min") : concat(minutes / 60, "h", minutes % 60, "min");
}

// By robust accuracy where there is one.
double merit_of(const ValidationRecord& record) {
  const double merit = record.robust_accuracy.value_or(record.clean_accuracy);
  return std::isfinite(merit) ? merit : -1;
}

std::string table_row(const ValidationRecord& record, bool is_best) {
  return concat(pad_left(std::to_string(record.epoch), 6),
                pad_left(std::to_string(record.update), 10),
                pad_left(percent(record.clean_accuracy), 16),
                pad_left(percent(robust_of(record)), 16), is_best ? "  best" : "", "\n");
}

}  // namespace

ProgressMode parse_progress_mode(std::string_view name) {
  if (name == "auto") {
    return ProgressMode::kAuto;
  }
  if (name == "bar") {
    return ProgressMode::kBar;
  }
  if (name == "lines") {
    return ProgressMode::kLines;
  }
  if (name == "off") {
    return ProgressMode::kOff;
  }
  throw ConfigError(concat("unknown progress '", name, "'; expected auto, bar, lines or off"));
}

ProgressMode resolve_progress_mode(ProgressMode mode, int fd) {
  if (mode != ProgressMode::kAuto) {
    return mode;
  }
  return ::isatty(fd) == 1 ? ProgressMode::kBar : ProgressMode::kLines;
}

ConsoleSink::ConsoleSink(std::ostream& out, ProgressMode mode, RunLength length,
                         std::chrono::milliseconds interval, SteadyClock clock)
    : out_(out), mode_(mode), length_(length), interval_(interval), clock_(std::move(clock)) {
  require(mode != ProgressMode::kAuto, "resolve the progress mode first");
}

std::string ConsoleSink::progress_text(const TrainRecord& record) const {
  const auto part = [](std::string_view name, double value, const std::string& text) {
    return std::isfinite(value) ? concat("  ", name, " ", text) : std::string();
  };
  std::string text = concat(
      part("loss", record.loss, fixed(record.loss, 4)),
      part("clean", record.clean_accuracy, percent(record.clean_accuracy)),
      part("adversarial", record.adversarial_accuracy, percent(record.adversarial_accuracy)));
  if (std::isfinite(record.images_per_second)) {
    text += concat("  ", fixed(record.images_per_second, 0), " images/s");
  }
  if (const auto seconds = pace_.seconds_for(length_.updates - record.update)) {
    text += concat("  ETA ", rest_text(*seconds));
  }
  return text;
}

void ConsoleSink::draw_bar(const TrainRecord& record) {
  const double done = length_.updates > 0 ? static_cast<double>(record.update) /
                                                static_cast<double>(length_.updates)
                                          : 0.0;
  const auto cells = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * kBarCells);
  std::string text =
      concat("epoch ", record.epoch, "/", length_.epochs, " [", std::string(cells, '#'),
             std::string(kBarCells - cells, '.'), "]", progress_text(record));
  text.resize(std::min(text.size(), terminal_columns() - 1));
  const std::size_t width = text.size();
  out_ << '\r' << text << std::string(bar_width_ > width ? bar_width_ - width : 0, ' ')
       << std::flush;
  bar_width_ = width;
}

void ConsoleSink::clear_bar() {
  if (bar_width_ > 0) {
    out_ << '\r' << std::string(bar_width_, ' ') << '\r';
    bar_width_ = 0;
  }
}

void ConsoleSink::write(const TrainRecord& record) {
  const SteadyTime now = clock_();
  pace_.observe(record.update, now);
  if (mode_ == ProgressMode::kBar) {
    draw_bar(record);
  } else if (mode_ == ProgressMode::kLines && (!line_time_ || now - *line_time_ >= interval_)) {
    line_time_ = now;
    out_ << concat("epoch ", record.epoch, "/", length_.epochs, "  update ", record.update, "/",
                   length_.updates, progress_text(record), "\n")
         << std::flush;
  }
}

void ConsoleSink::write(const ValidationRecord& record) {
  validations_.push_back(record);
  if (mode_ == ProgressMode::kOff) {
    return;
  }
  clear_bar();
  out_ << concat("epoch ", record.epoch, ": clean accuracy ", percent(record.clean_accuracy));
  if (record.robust_accuracy) {
    out_ << concat(", robust accuracy ", percent(*record.robust_accuracy), " (", record.attack,
                   ")");
  }
  out_ << concat(", ", record.samples, " samples", record.average ? ", weight average" : "", "\n")
       << std::flush;
}

void ConsoleSink::write(const Event& event) {
  if (event.what == "finished" || event.what == "preempted") {
    clear_bar();
    print_table();
  }
}

void ConsoleSink::print_table() {
  if (validations_.empty()) {
    return;
  }
  const auto best = std::ranges::max_element(validations_, {}, merit_of);
  const auto first_shown =
      validations_.end() - static_cast<std::ptrdiff_t>(std::min(kTableRows, validations_.size()));
  out_ << concat(pad_left("epoch", 6), pad_left("update", 10), pad_left("clean accuracy", 16),
                 pad_left("robust accuracy", 16), "\n");
  if (best < first_shown) {
    out_ << table_row(*best, true);
  }
  for (auto row = first_shown; row != validations_.end(); ++row) {
    out_ << table_row(*row, row == best);
  }
  out_ << std::flush;
}

}  // namespace temper
