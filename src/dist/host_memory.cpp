#include <sys/resource.h>

#include "temper/dist/device.h"

namespace temper {

std::int64_t peak_host_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace temper
