#include "recipe/run_end.h"

#include <iostream>
#include <string_view>

#include "temper/core/text.h"

namespace temper {
namespace {

std::string percent(double fraction) { return concat(fixed(100 * fraction, 2), " %"); }

std::string_view time_text(const Config& config, StopReason reason) {
  if (reason != StopReason::kTimeUp) {
    return "";
  }
  return config.training.max_time->automatic
             ? ", as the job's time is nearly up (training.max_time=auto)"
             : ", as training.max_time is over";
}

}  // namespace

void report_finished(const std::filesystem::path& run_directory, const ReportData& report,
                     std::int64_t epoch) {
  write_report(run_directory / "report.html", report);
  if (!report.metrics.train.empty()) {
    const TrainRecord& last = report.metrics.train.back();
    std::cout << "speed: " << fixed(last.images_per_second, 1)
              << " images/s over all processes; peak memory of a process: "
              << fixed(static_cast<double>(last.peak_memory_bytes) / (1 << 20), 0) << " MiB\n";
  }
  std::cout << "report: " << (run_directory / "report.html").string() << '\n';
  std::cout << "finished: epoch " << epoch;
  if (!report.metrics.validation.empty()) {
    const ValidationRecord& last = report.metrics.validation.back();
    std::cout << ", clean accuracy " << percent(last.clean_accuracy);
    if (last.robust_accuracy) {
      std::cout << ", robust accuracy " << percent(*last.robust_accuracy);
    }
  }
  std::cout << std::endl;
}

void report_stopped(const std::filesystem::path& run_directory, const Config& config,
                    StopReason reason, std::int64_t update) {
  std::cout << "stopped after update " << update << time_text(config, reason)
            << "; the same command with --run-dir " << run_directory.string()
            << " goes on from there" << std::endl;
}

}  // namespace temper
