#pragma once
// The memory that launcher and ranks share: per rank its beat, its last collective and the reason
// of its failure. The launcher reads it when a rank has died, so nothing in it may need the rank's
// help.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "temper/dist/collective_progress.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/worker.h"

namespace temper {

inline constexpr const char* kPageVariable = "TEMPER_PAGE_FD";

// One cache line. The sequence is odd while the rank writes.
struct alignas(64) BeatLine {
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::int64_t> nanoseconds;
  std::atomic<std::uint64_t> update;
  std::array<std::atomic<std::uint64_t>, 4> phase;
  std::atomic<std::int64_t> loader_bytes;  // the loader may hold, see Heartbeat
};
static_assert(sizeof(BeatLine) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

struct FailureSlot {
  enum State : std::uint32_t { kEmpty, kWriting, kFull };
  // Said by a rank before it ends with a good status: it has done its part, or was asked to stop
  // before there was anything to save, and the others cannot go on without it.
  enum Finished : std::uint32_t { kNot, kDone, kStoppedEarly };
  std::atomic<std::uint32_t> state;
  std::uint32_t category;
  std::int64_t nanoseconds;
  std::uint32_t length;
  std::atomic<std::uint32_t> finished;
  std::array<char, 8192 - 64 - 128 - 28> message;
};

struct RankSlot {
  BeatLine beat;
  CollectiveProgress collective;
  FailureSlot failure;
};
static_assert(sizeof(RankSlot) == 8192);

[[nodiscard]] std::int64_t monotonic_nanoseconds() noexcept;
[[nodiscard]] Beat read_beat(const BeatLine& line);

// Shared memory without a name; its descriptor is given to the ranks.
class SharedPage {
 public:
  explicit SharedPage(int ranks);
  // Takes the descriptor over.
  static SharedPage from_descriptor(int descriptor);
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&&) = delete;
  ~SharedPage();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(bytes_ / sizeof(RankSlot)); }
  [[nodiscard]] RankSlot& slot(int rank) { return slots_[rank]; }

 private:
  SharedPage() = default;
  void map();

  int descriptor_ = -1;
  std::size_t bytes_ = 0;
  RankSlot* slots_ = nullptr;
};

class Heartbeat::Page {
 public:
  Page();
  Page(SharedPage shared, int rank);
  [[nodiscard]] RankSlot& slot() { return *slot_; }

 private:
  std::unique_ptr<SharedPage> shared_;
  std::unique_ptr<RankSlot> own_;
  RankSlot* slot_;
};

}  // namespace temper
