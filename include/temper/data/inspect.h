#pragma once
// Checks and describes a data set by reading all of it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "temper/data/dataset.h"

namespace temper {

struct BadSample {
  std::string name;
  std::string reason;
  std::optional<std::uint64_t> offset{};  // where it begins in a file of many samples
};

struct VerifyReport {
  std::uint64_t samples = 0;
  std::vector<BadSample> bad;  // in the order of the data set
};

// Checks the storage as a whole, loads every sample with `threads` threads and collects the errors.
[[nodiscard]] VerifyReport verify_dataset(const Dataset& dataset, int threads);

struct DatasetStatistics {
  std::uint64_t samples = 0;
  std::vector<std::string> class_names;
  std::vector<std::uint64_t> class_counts;
  int height_min = 0, height_max = 0, width_min = 0, width_max = 0;  // pixels
  std::map<std::string, std::uint64_t> formats;                      // samples by storage format
  std::uint64_t bytes = 0, bytes_min = 0, bytes_max = 0;  // as stored; of all and of a sample
  // Samples whose stored bytes equal those of an earlier one, how many of them have another label
  // than the first of their group, and the first groups.
  static constexpr std::size_t kListedGroups = 5;
  std::uint64_t duplicates = 0;
  std::uint64_t duplicates_across_classes = 0;
  std::vector<std::vector<std::string>> duplicate_groups;
  // Over all pixels, per channel, in units of [0, 1].
  std::vector<double> mean;
  std::vector<double> standard_deviation;
  std::uint64_t fingerprint = 0;
  std::vector<BadSample> bad;  // not contained in the figures above
};

// The figures do not depend on the number of threads.
[[nodiscard]] DatasetStatistics describe_dataset(const Dataset& dataset, int threads);

// For people, several lines; or one JSON object.
[[nodiscard]] std::string to_text(const VerifyReport& report);
[[nodiscard]] std::string to_json(const VerifyReport& report);
[[nodiscard]] std::string to_text(const DatasetStatistics& statistics);
[[nodiscard]] std::string to_json(const DatasetStatistics& statistics);

}  // namespace temper
