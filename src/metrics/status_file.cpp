#include "temper/metrics/status_file.h"

#include <array>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "temper/core/file.h"

namespace temper {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

}  // namespace

StatusFile::StatusFile(std::filesystem::path path, RunLength length,
                       std::chrono::milliseconds interval, SteadyClock clock)
    : path_(std::move(path)), length_(length), interval_(interval), clock_(std::move(clock)) {}

void StatusFile::write(const TrainRecord& record) {
  last_ = record;
  pace_.observe(record.update, clock_());
  if (!saved_ || clock_() - *saved_ >= interval_) {
    save();
  }
}

void StatusFile::write(const ValidationRecord& record) {
  last_.epoch = record.epoch;
  last_.update = record.update;
  save();
}

void StatusFile::write(const Event& event) {
  if (event.what == "preempted" || event.what == "finished") {
    state_ = event.what;
  }
  last_.epoch = event.epoch;
  last_.update = event.update;
  save();
}

void StatusFile::save() {
  const bool is_running = state_ == "running";
  nlohmann::ordered_json json = {{"state", state_},
                                 {"epoch", last_.epoch},
                                 {"epochs", length_.epochs},
                                 {"update", last_.update},
                                 {"updates", length_.updates},
                                 {"images_per_second", last_.images_per_second},
                                 {"eta_seconds", nullptr},
                                 {"updated_at", utc_now()}};
  const std::optional<double> seconds = pace_.seconds_for(length_.updates - last_.update);
  if (is_running && seconds) {
    json["eta_seconds"] = std::round(*seconds);
  }
  write_file_atomically(path_, json.dump(2) + '\n');
  saved_ = clock_();
}

}  // namespace temper
