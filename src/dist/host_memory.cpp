#include <fstream>
#include <string>

#include "temper/dist/device.h"

namespace temper {

// The high-water mark of this program: rusage would also count the process that started it.
std::int64_t peak_host_memory() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmHWM:") {
      std::int64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
    status.ignore(256, '\n');
  }
  return 0;
}

}  // namespace temper
