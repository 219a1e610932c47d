#include "temper/data/loader_statistics.h"

#include <algorithm>

#include "temper/core/text.h"

namespace temper {

double LoaderStatistics::images_per_second() const {
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

double LoaderStatistics::wait_share() const {
  return seconds > 0 ? std::min(1.0, wait_seconds / seconds) : 0;
}

std::string loader_advice(const LoaderStatistics& statistics, int cpus) {
  constexpr double kWaitShare = 0.1;
  constexpr double kShortTime = 5;  // seconds
  if (statistics.seconds < kShortTime || statistics.wait_share() <= kWaitShare) {
    return "";
  }
  const std::string begin = concat(
      "training waited for data for ", fixed(100 * statistics.wait_share(), 0), " % of the time (",
      fixed(statistics.images_per_second(), 0), " images/s, ", statistics.threads,
      statistics.threads == 1 ? " loader thread): " : " loader threads): ");
  const double reading =
      statistics.load_seconds > 0 ? statistics.read_seconds / statistics.load_seconds : 0;
  if (reading > 0.5) {
    return concat(begin, "reading takes ", fixed(100 * reading, 0),
                  " % of the loader's time; a pack file (datatool pack), data.cache: ram or a "
                  "faster disk help, more data.workers do not");
  }
  if (statistics.threads < cpus) {
    return concat(begin, "data.workers: ", cpus, " would use all ", cpus,
                  " processors that are left to it");
  }
  return concat(begin, "all ", cpus, cpus == 1 ? " processor that is" : " processors that are",
                " left to it are at work, so more data.workers would not help; smaller stored "
                "images (datatool pack --pixels after a resize) or more processors do");
}

}  // namespace temper
