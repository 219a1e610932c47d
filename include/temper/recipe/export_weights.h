#pragma once
// Weights out of a checkpoint, for programs other than Temper.

#include <filesystem>
#include <string>

#include "temper/checkpoint/state_dict.h"

namespace temper {

struct WeightExport {
  std::filesystem::path checkpoint;  // any file that read_state_dict takes
  std::filesystem::path target;      // .pt, .pth or .safetensors decides the format
  WeightSet weights = WeightSet::kModel;
  bool json = false;
};

// Writes the bare weights, a dict of tensors by torchvision's names, in one step; a target that is
// there stays as it is until then. Returns what the user should know, as text or as one JSON
// object: how much was written, and how images must be normalised first, which Temper's models do
// inside. Throws ConfigError for an unknown ending, a checkpoint that is missing, damaged or lacks
// the weights, and a target that cannot be written.
[[nodiscard]] std::string export_weights(const WeightExport& request);

}  // namespace temper
