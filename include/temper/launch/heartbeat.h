#pragma once
// What a rank is doing, visible to its launcher without the rank's help: a page of shared memory
// with one cache line per rank. A rank that is not started by our launcher keeps the values to
// itself.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "temper/dist/collective_progress.h"

namespace temper {

struct Beat {
  std::string phase = "start";
  std::uint64_t update = 0;
  std::int64_t nanoseconds = 0;  // CLOCK_MONOTONIC of the last beat; 0 before the first
  // False when the writer was found in mid-write all the time, as one that was killed there: the
  // fields may then belong to two beats.
  bool whole = true;
};

// Writing is wait-free and makes no system call but the clock. One thread at a time may write.
class Heartbeat {
 public:
  // A phase is cut to this many characters.
  static constexpr std::size_t kPhaseLength = 31;

  // Maps the launcher's page if the environment names one. SystemError if that fails.
  [[nodiscard]] static Heartbeat from_environment();
  // Visible to this process alone.
  Heartbeat();
  Heartbeat(Heartbeat&& other) noexcept;
  Heartbeat& operator=(Heartbeat&& other) noexcept;
  ~Heartbeat();

  // E.g. "attack", "evaluation", "save checkpoint".
  void set(std::string_view phase, std::uint64_t update);
  // Keeps the update.
  void set_phase(std::string_view phase);
  // Still moving, in the same phase.
  void touch() noexcept;
  [[nodiscard]] Beat beat() const;

  // Called after each `set`, for tools and tests; what it throws comes out of `set`.
  using Observer = std::function<void(std::string_view phase, std::uint64_t update)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // Where the communicator notes the collective that it enters.
  [[nodiscard]] CollectiveProgress& collective() const;
  // The most bytes that the loader holds for batches, for a report on memory.
  void set_loader_bytes(std::int64_t bytes) noexcept;

  // The rank's part of the page; src/launch/shared_page.h.
  class Page;
  [[nodiscard]] Page& page() const { return *page_; }

 private:
  explicit Heartbeat(std::unique_ptr<Page> page);
  std::unique_ptr<Page> page_;
  Observer observer_;
};

}  // namespace temper
