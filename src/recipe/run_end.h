#pragma once
// What the main rank writes and says at the end of a run.

#include <cstdint>
#include <filesystem>

#include "temper/recipe/config.h"
#include "temper/report/html.h"
#include "temper/train/trainer.h"

namespace temper {

// Writes report.html, and prints the speed and the last validation.
void report_finished(const std::filesystem::path& run_directory, const ReportData& report,
                     std::int64_t epoch);

// How to go on. Signals are named where they come in.
void report_stopped(const std::filesystem::path& run_directory, const Config& config,
                    StopReason reason, std::int64_t update);

}  // namespace temper
