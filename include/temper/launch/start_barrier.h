#pragma once
// The first meeting of all ranks.

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "temper/dist/store.h"
#include "temper/launch/host_address.h"

namespace temper {

struct StartBarrierOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::function<bool()> stop_requested{};
};

// Takes this rank's place in the run that the store belongs to; the first thing a rank does there.
// ConfigError when another process has the number already, or when the ranks that are there count
// another world size: a stray process of another run must not touch what is there. Until this
// returns nothing else may be written to the store, a failure included.
void claim_rank(Store& store, int rank, int world_size);

// After claim_rank. Returns when all ranks of the run have called it, with the place of each;
// nothing on a request to stop. Rank 0 warns after `warn_after` with the ranks that are missing;
// after `timeout` every waiting rank throws std::runtime_error that names them. LostPeerError when
// another rank announces a failure meanwhile, ConfigError when a missing rank was turned away or
// counts another world size.
[[nodiscard]] std::optional<std::vector<RankHost>> start_barrier(
    Store& store, int rank, int world_size, const StartBarrierOptions& options = {});

}  // namespace temper
