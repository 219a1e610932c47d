#pragma once
// NCCL's flight recorder: LibTorch keeps the last collectives of each rank and writes them to a
// file when one runs into the time-out. Read a file with `python -m
// torch.distributed.flight_recorder`'s tools, or torch.load.

#include <filesystem>
#include <vector>

#include "temper/launch/environment.h"

namespace temper {

// What to add to a rank's environment before it makes its process group, so that the recorder is on
// and writes into `folder` (empty: LibTorch's own place). What the user has set in `variables`,
// under the new name or the old one, stays.
[[nodiscard]] EnvironmentVariables flight_recorder_variables(const std::filesystem::path& folder,
                                                             const EnvironmentVariables& variables);

// The files that the ranks have left in the folder, by name.
[[nodiscard]] std::vector<std::filesystem::path> flight_recorder_dumps(
    const std::filesystem::path& folder);

}  // namespace temper
