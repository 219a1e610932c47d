#include "temper/launch/start_barrier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/units.h"

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

std::vector<RankHost> start_barrier(Store& store, int rank, int world_size, milliseconds timeout,
                                    milliseconds warn_after) {
  store.set(rank_key(rank), to_value(own_rank_host(store.address())));
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(world_size));
  for (int peer = 0; peer < world_size; ++peer) {
    keys.push_back(rank_key(peer));
  }
  const Clock::time_point end = Clock::now() + timeout;
  if (store.wait(keys, std::min(timeout, warn_after))) {
    return read_hosts(store, keys);
  }
  if (timeout > warn_after) {
    if (rank == 0) {
      log_warning("still waiting for ", missing_ranks(store, world_size), " to start");
    }
    const auto rest = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (store.wait(keys, std::max(rest, milliseconds(1)))) {
      return read_hosts(store, keys);
    }
  }
  throw std::runtime_error(concat(missing_ranks(store, world_size), " did not start within ",
                                  to_text(timeout), " (seen from rank ", rank, " on ", host_name(),
                                  "); look for the first error of the missing ones"));
}

}  // namespace temper
