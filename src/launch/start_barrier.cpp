#include "temper/launch/start_barrier.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/units.h"
#include "temper/launch/peer_watch.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string rank_key(int rank) { return concat("start/", rank); }

std::string missing_ranks(Store& store, int world_size) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::vector<std::string> keys = {rank_key(rank)};
    if (!store.check(keys)) {
      missing.push_back(std::to_string(rank));
    }
  }
  return concat(missing.size() == 1 ? "rank " : "ranks ", join(missing, ", "), " of ", world_size);
}

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

bool start_barrier(Store& store, int rank, int world_size, const StartBarrierOptions& options) {
  store.set(rank_key(rank), own_host());
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(world_size));
  for (int peer = 0; peer < world_size; ++peer) {
    keys.push_back(rank_key(peer));
  }
  constexpr milliseconds kSlice{200};
  const Clock::time_point start = Clock::now();
  bool warned = rank != 0;
  while (!store.wait(keys, std::min(kSlice, options.timeout))) {
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    if (const auto line = peer_failure(store, milliseconds(1))) {
      throw PeerFailure(concat("stopped, because ", *line));
    }
    if (options.stop_requested && options.stop_requested()) {
      return false;
    }
    if (waited >= options.timeout) {
      throw std::runtime_error(concat(missing_ranks(store, world_size), " did not start within ",
                                      to_text(options.timeout), " (seen from rank ", rank, " on ",
                                      own_host(),
                                      "); look for the first error of the missing ones"));
    }
    if (!warned && waited >= options.warn_after) {
      warned = true;
      log_warning("still waiting for ", missing_ranks(store, world_size), " to start");
    }
  }
  return true;
}

}  // namespace temper
