#pragma once
// The first meeting of all ranks.

#include <chrono>
#include <functional>

#include "temper/dist/store.h"

namespace temper {

struct StartBarrierOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::function<bool()> stop_requested{};
};

// Returns true when all ranks of the run have called it, false on a request to stop. Rank 0 warns
// after `warn_after` with the ranks that are missing; after `timeout` every waiting rank throws
// std::runtime_error that names them. PeerFailure when another rank announces a failure meanwhile.
[[nodiscard]] bool start_barrier(Store& store, int rank, int world_size,
                                 const StartBarrierOptions& options = {});

}  // namespace temper
