#pragma once
// Where a rank's host is, as its peers see it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "temper/launch/environment.h"

namespace temper {

// The name that the system gives this host.
[[nodiscard]] std::string host_name();

// What a rank tells the others about its place when all meet.
struct RankHost {
  std::string host{};     // its name, for people
  std::string machine{};  // equal for ranks that reach each other by the loopback device
  std::string address{};  // of the interface that routes to rank 0; empty: none was found
  std::string parent{};   // the process that has started the rank, unlike any other
};

[[nodiscard]] RankHost own_rank_host(const std::string& master_address);

// Numeric addresses of a name, v4 and v6, without repeats. Throws std::runtime_error with the
// resolver's words.
[[nodiscard]] std::vector<std::string> resolve_host(const std::string& host);

// 127.0.0.0/8, ::1 and the like, in numbers.
[[nodiscard]] bool is_loopback(const std::string& address);

// Address of the interface through which packets for `host` leave; nothing is sent. Empty when
// the name does not resolve or no route leads there.
[[nodiscard]] std::string address_towards(const std::string& host);

// Which address of its own rank `rank` gives to its peers: loopback when all are on one machine,
// else that of the interface that leads to rank 0, or for the neighbours of rank 0 to a rank on
// another machine. Never by this host's name, which may mean 127.0.1.1. std::runtime_error when all
// that is known is loopback.
[[nodiscard]] std::string address_for_peers(std::span<const RankHost> hosts, int rank);

// ConfigError when the address of rank 0 cannot be right: a host list's name that means loopback
// on a run of several nodes, or, on rank 0 when it hosts the store, an address of another host.
// Warns of a loopback address that the user has set for several nodes.
void check_master_address(const RankEnvironment& environment);

}  // namespace temper
