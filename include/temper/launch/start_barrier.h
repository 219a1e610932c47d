#pragma once
// The first meeting of all ranks.

#include <chrono>
#include <vector>

#include "temper/dist/store.h"
#include "temper/launch/host_address.h"

namespace temper {

// Returns when all ranks of the run have called it, with the place of each. Rank 0 warns after
// `warn_after` with the ranks that are missing; after `timeout` every waiting rank throws
// std::runtime_error that names them.
std::vector<RankHost> start_barrier(
    Store& store, int rank, int world_size, std::chrono::milliseconds timeout,
    std::chrono::milliseconds warn_after = std::chrono::seconds(30));

}  // namespace temper
