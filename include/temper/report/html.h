#pragma once
// report.html: one page that shows a run without any other file or host: curves, final numbers, the
// configuration, adversarial examples.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "temper/metrics/metrics_log.h"

namespace temper {

// Pixels in rows from the top, channels interleaved: bytes [height, width, channels].
struct Pixels {
  int width = 0;
  int height = 0;
  int channels = 3;  // 1 or 3
  std::vector<std::uint8_t> bytes;
};

// A clean image and its adversarial one, of the same shape. The page adds their difference,
// magnified around mid-gray.
struct AdversarialExample {
  Pixels clean;
  Pixels adversarial;
  std::string label;
  std::string clean_prediction;
  std::string adversarial_prediction;
};

struct ReportData {
  std::string title{};
  MetricsLog metrics{};
  std::string attack{};                        // what the robust accuracies were measured with
  std::string configuration{};                 // shown as it is
  std::vector<AdversarialExample> examples{};  // none: no grid
};

[[nodiscard]] std::string render_report(const ReportData& data);

// Replaces `path` in one step. Throws SystemError.
void write_report(const std::filesystem::path& path, const ReportData& data);

}  // namespace temper
