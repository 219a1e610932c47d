#pragma once
// Tells the ranks of a job through the store why it ends, and watches over ranks that no launcher
// of ours supervises.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "temper/dist/store.h"
#include "temper/launch/heartbeat.h"

namespace temper {

// Leaves the line of a failure that is a cause for the others to find. The first one of a job
// counts. A store that is gone is of no consequence here: its loss is found by the others, too.
void announce_peer_failure(Store& store, const std::string& line) noexcept;

// The line, if one comes within `wait`; a store that is gone says nothing.
[[nodiscard]] std::optional<std::string> peer_failure(Store& store,
                                                      std::chrono::milliseconds wait) noexcept;

struct PeerWatchOptions {
  std::string address{};  // of the store
  std::uint16_t port = 0;
  std::string attempt{};  // of Store::enter; empty: none
  int rank = 0;
  int world_size = 1;
  bool hosts_store = false;  // this process does; it then waits for the others at the end
  std::string host{};        // name of this host
  std::chrono::milliseconds hang_timeout = std::chrono::minutes(8);
  std::chrono::milliseconds peer_grace = std::chrono::seconds(10);
};

// A thread that publishes this rank's beat and looks for an announced failure; on the first two
// ranks also for a rank that hangs or is not heard from, which it then announces. After a failure
// the process has `peer_grace` to end by itself, then ends by `_exit` with status 1, lest it waits
// in a collective for ever. The rank that is blamed for a hang writes the stacks of its threads.
class PeerWatch {
 public:
  // `heartbeat` must outlive the object.
  PeerWatch(const PeerWatchOptions& options, Heartbeat& heartbeat);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace temper
