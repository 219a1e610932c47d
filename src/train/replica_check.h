#pragma once
// Whether all ranks hold the same bits.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "temper/dist/communicator.h"

namespace temper {

// A collective. Empty when all tensors have the same bits on all ranks; else a text, equal on all
// ranks, that names the first differing tensor and the ranks whose bits are not those of the
// majority (of rank 0, when there is none).
[[nodiscard]] std::string find_replica_difference(
    const std::vector<std::pair<std::string, at::Tensor>>& tensors, Communicator& communicator);

}  // namespace temper
