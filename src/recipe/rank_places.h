#pragma once
// Where each rank of the run has its place, told through the store.

#include <chrono>
#include <optional>
#include <vector>

#include "temper/dist/store.h"
#include "temper/recipe/placement.h"

namespace temper {

// Of this process. `device`: the number of its GPU, none on the CPU.
[[nodiscard]] RankPlace own_place(int rank, std::optional<int> device);

// Of the ranks that a launcher on this host would start.
[[nodiscard]] std::vector<RankPlace> planned_places(int processes, const GpuSelection& gpus);

// All places, by rank, on rank 0; the other ranks get an empty list. When two ranks have one GPU
// every rank throws the same ConfigError.
[[nodiscard]] std::vector<RankPlace> share_places(Store& store, const RankPlace& own,
                                                  int world_size,
                                                  std::chrono::milliseconds timeout);

}  // namespace temper
