#include "temper/launch/start_barrier.h"

#include <unistd.h>

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

constexpr milliseconds kShort{2000};  // for a process that is about to write its place

std::string claims_key(int rank) { return concat("start/claims/", rank); }
std::string place_key(int rank) { return concat("start/place/", rank); }
std::string start_key(int rank) { return concat("start/met/", rank); }
std::string refusal_key(int rank) { return concat("start/refused/", rank); }

bool has(Store& store, const std::string& key) {
  const std::vector<std::string> keys = {key};
  return store.check(keys);
}

std::string missing_ranks(Store& store, int world_size) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!has(store, start_key(rank))) {
      missing.push_back(std::to_string(rank));
    }
  }
  return concat(missing.size() == 1 ? "rank " : "ranks ", join(missing, ", "), " of ", world_size);
}

struct Place {
  int world_size = 0;
  int pid = 0;
  RankHost host{};
};

// World size, process, host, machine, address and parent, a line each.
std::string to_value(const Place& place) {
  return concat(place.world_size, "\n", place.pid, "\n", place.host.host, "\n", place.host.machine,
                "\n", place.host.address, "\n", place.host.parent);
}

Place from_value(const std::string& value) {
  const std::vector<std::string> lines = split(value, '\n');
  require(lines.size() == 6, "a rank's place has six lines, not ", lines.size());
  return {.world_size = std::stoi(lines[0]),
          .pid = std::stoi(lines[1]),
          .host = {.host = lines[2], .machine = lines[3], .address = lines[4], .parent = lines[5]}};
}

std::string name_of(int rank, const Place& place) {
  return concat("rank ", rank, " of ", place.world_size, " (pid ", place.pid, ", host ",
                place.host.host, ")");
}

std::vector<RankHost> read_hosts(Store& store, int world_size) {
  std::vector<RankHost> hosts;
  hosts.reserve(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    hosts.push_back(from_value(store.get(place_key(rank))).host);
  }
  return hosts;
}

// Empty, or why this rank belongs to another run than those that are there.
std::string disagreement(Store& store, int rank, const Place& own) {
  for (int peer = 0; peer < own.world_size; ++peer) {
    if (peer == rank || !has(store, place_key(peer))) {
      continue;
    }
    if (const Place place = from_value(store.get(place_key(peer)));
        place.world_size != own.world_size) {
      return concat(name_of(rank, own), " meets ", name_of(peer, place), " at ", store.address(),
                    ":", store.port(),
                    ": set WORLD_SIZE alike for all ranks, or choose another MASTER_PORT if these "
                    "are two runs");
    }
  }
  return {};
}

// A rank that was turned away will not come again.
void require_no_refusal(Store& store, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    if (!has(store, place_key(rank)) && has(store, refusal_key(rank))) {
      throw ConfigError(store.get(refusal_key(rank)));
    }
  }
}

}  // namespace

void claim_rank(Store& store, int rank, int world_size) {
  const Place own{
      .world_size = world_size, .pid = ::getpid(), .host = own_rank_host(store.address())};
  if (rank != 0) {
    // The one who hosts the store must not be the one who is turned away: the others would see no
    // more than a lost store.
    const std::vector<std::string> first = {place_key(0)};
    static_cast<void>(store.wait(first, kShort));
  }
  if (const std::string reason = disagreement(store, rank, own); !reason.empty()) {
    store.set(refusal_key(rank), reason);
    throw ConfigError(reason);
  }
  if (store.add(claims_key(rank), 1) > 1) {
    const std::vector<std::string> keys = {place_key(rank)};
    const std::string other = store.wait(keys, kShort)
                                  ? name_of(rank, from_value(store.get(place_key(rank))))
                                  : concat("another process");
    throw ConfigError(concat(
        other, " is rank ", rank, " of the run at ", store.address(), ":", store.port(),
        " already, so process ", own.pid, " on host ", own.host.host,
        " cannot be: give each rank its own RANK, or choose another MASTER_PORT if these are two "
        "runs"));
  }
  store.set(place_key(rank), to_value(own));
}

std::optional<std::vector<RankHost>> start_barrier(Store& store, int rank, int world_size,
                                                   const StartBarrierOptions& options) {
  const Place own = from_value(store.get(place_key(rank)));
  store.set(start_key(rank), "");
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(world_size));
  for (int peer = 0; peer < world_size; ++peer) {
    keys.push_back(start_key(peer));
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
    require_no_refusal(store, world_size);
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
  if (const std::string reason = disagreement(store, rank, own); !reason.empty()) {
    throw ConfigError(reason);  // both came at the same moment
  }
  return read_hosts(store, world_size);
}

}  // namespace temper
