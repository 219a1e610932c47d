#pragma once
// Reads metrics.jsonl back.

#include <filesystem>
#include <vector>

#include "temper/metrics/record.h"
#include "temper/metrics/sink.h"

namespace temper {

struct MetricsLog {
  std::vector<TrainRecord> train;
  std::vector<ValidationRecord> validation;
  std::vector<Event> events;
};

// Nulls become NaN or an empty optional. A last line without its end is dropped; any other line
// that is not a record is a DataError with file and line number.
[[nodiscard]] MetricsLog read_metrics(const std::filesystem::path& path);

// Writes the records of a file to a sink in the order of the file: after a resume, for a sink that
// keeps its state in memory.
void replay_metrics(const std::filesystem::path& path, Sink& sink);

}  // namespace temper
