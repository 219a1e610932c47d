#include "temper/launch/start_barrier.h"

#include <algorithm>
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

// Host, machine, address and parent, a line each.
std::string to_value(const RankHost& place) {
  return concat(place.host, "\n", place.machine, "\n", place.address, "\n", place.parent);
}

RankHost from_value(const std::string& value) {
  const std::vector<std::string> lines = split(value, '\n');
  require(lines.size() == 4, "a rank's place has four lines, not ", lines.size());
  return {.host = lines[0], .machine = lines[1], .address = lines[2], .parent = lines[3]};
}

std::vector<RankHost> read_hosts(Store& store, const std::vector<std::string>& keys) {
  std::vector<RankHost> hosts;
  hosts.reserve(keys.size());
  for (const std::string& key : keys) {
    hosts.push_back(from_value(store.get(key)));
  }
  return hosts;
}

}  // namespace

std::optional<std::vector<RankHost>> start_barrier(Store& store, int rank, int world_size,
                                                   const StartBarrierOptions& options) {
  store.set(rank_key(rank), to_value(own_rank_host(store.address())));
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
      throw LostPeerError(concat("stopped, because ", *line));
    }
    if (options.stop_requested && options.stop_requested()) {
      return std::nullopt;
    }
    if (waited >= options.timeout) {
      throw std::runtime_error(concat(missing_ranks(store, world_size), " did not start within ",
                                      to_text(options.timeout), " (seen from rank ", rank, " on ",
                                      host_name(),
                                      "); look for the first error of the missing ones"));
    }
    if (!warned && waited >= options.warn_after) {
      warned = true;
      log_warning("still waiting for ", missing_ranks(store, world_size), " to start");
    }
  }
  return read_hosts(store, keys);
}

}  // namespace temper
