#pragma once
// The first meeting of all ranks.

#include <chrono>

#include "temper/dist/store.h"

namespace temper {

// Returns when all ranks of the run have called it. Rank 0 warns after `warn_after` with the ranks
// that are missing; after `timeout` every waiting rank throws std::runtime_error that names them.
void start_barrier(Store& store, int rank, int world_size, std::chrono::milliseconds timeout,
                   std::chrono::milliseconds warn_after = std::chrono::seconds(30));

}  // namespace temper
