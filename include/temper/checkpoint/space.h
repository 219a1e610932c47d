#pragma once
// The room on the disk that the checkpoints of a run take.

#include <cstdint>
#include <filesystem>
#include <string>

#include "temper/checkpoint/value.h"

namespace temper {

// Of all tensors together, which is about the size of the file.
[[nodiscard]] std::uint64_t tensor_bytes(const Value& value);

// What a run will keep.
struct CheckpointFiles {
  std::uint64_t bytes = 0;  // of each
  int epochs = 0;           // checkpoint.keep
  bool best = false;
};

// What to tell the user when the file system has no room for the files that are still to come;
// empty: there is room. The folder that holds `folder` must exist.
[[nodiscard]] std::string missing_space(const std::filesystem::path& folder,
                                        const CheckpointFiles& files);

}  // namespace temper
