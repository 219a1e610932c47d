#pragma once
// Whether the ranks, which each read files and overrides of their own, have one configuration.

#include <chrono>
#include <string>
#include <vector>

#include "temper/dist/store.h"

namespace temper {

// What differs between the configurations of the ranks, texts of print_config without comments, by
// rank: the keys with their values. Empty when they may train together: paths, `run.name`, logging,
// the loader's threads and memory, and time-outs may differ. That the data are the same is found
// out by their index hash.
[[nodiscard]] std::string configuration_difference(const std::vector<std::string>& configurations);

// Through the store, before the first collective, whose course depends on the configuration. Throws
// the same ConfigError on all ranks when theirs differ, LostPeerError when a rank does not come.
void require_same_configuration(Store& store, int rank, int world_size,
                                const std::string& configuration,
                                std::chrono::milliseconds timeout);

}  // namespace temper
