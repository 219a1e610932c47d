#include "temper/launch/flight_recorder.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

namespace temper {
namespace {

constexpr std::string_view kPrefix = "nccl-collectives-rank-";

struct Setting {
  const char* name;
  const char* old_name;  // which LibTorch 2.11 still takes, with a warning
  std::string value;
};

}  // namespace

EnvironmentVariables flight_recorder_variables(const std::filesystem::path& folder,
                                               const EnvironmentVariables& variables) {
  std::vector<Setting> settings{
      {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "", "1"},
  };
  if (!folder.empty()) {
    settings.push_back({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
                        (std::filesystem::absolute(folder) / kPrefix).string()});
  }
  EnvironmentVariables added;
  for (const auto& [name, old_name, value] : settings) {
    if (!variables.contains(name) && !variables.contains(old_name)) {
      added[name] = value;
    }
  }
  return added;
}

std::vector<std::filesystem::path> flight_recorder_dumps(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> dumps;
  std::error_code error;  // a folder that is not there has none
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) {
      dumps.push_back(entry.path());
    }
  }
  std::sort(dumps.begin(), dumps.end());
  return dumps;
}

}  // namespace temper
