#pragma once
// The collective that a rank entered last, readable by any thread at any time and, when it lies in
// shared memory, by another process: what the others wait in when a rank hangs.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace temper {

// What was read of a CollectiveProgress.
struct CollectiveState {
  std::uint64_t begun = 0;  // collectives that were handed to the process group
  std::uint64_t ended = 0;  // of these, those that the rank no longer waits for
  std::string kind{};       // of the last one: "all_reduce_sum float64"
  std::int64_t numel = 0;
  std::string purpose{};  // of the last one: "update summary"; may be empty
  // False when the writer was found in mid-write all the time, as one that was killed there: the
  // fields may then belong to two collectives.
  bool whole = true;

  // Also while a backward pass computes behind a bucket that is under way. On CUDA a collective
  // counts as ended once it is queued.
  [[nodiscard]] bool is_inside() const { return begun > ended; }
};

// "#3 all_reduce_sum float64 x 42 (update summary)"; empty when there was none. The number counts
// from 0.
[[nodiscard]] std::string to_string(const CollectiveState& state);

// All zero bytes are a valid start, so it can be put into fresh shared memory. One thread at a time
// may write; neither side allocates, waits or makes a system call.
class alignas(64) CollectiveProgress {
 public:
  // Longer texts are cut.
  static constexpr std::size_t kKindLength = 24;
  static constexpr std::size_t kPurposeLength = 40;

  void begin(std::string_view operation, std::string_view dtype, std::int64_t numel,
             std::string_view purpose) noexcept;
  // All that were begun have ended.
  void end_all() noexcept;
  [[nodiscard]] CollectiveState read() const;

 private:
  std::atomic<std::uint64_t> version_{};  // odd while it is written
  std::atomic<std::uint64_t> begun_{};
  std::atomic<std::uint64_t> ended_{};
  std::atomic<std::int64_t> numel_{};
  std::array<std::atomic<std::uint64_t>, kKindLength / 8> kind_{};
  std::array<std::atomic<std::uint64_t>, kPurposeLength / 8> purpose_{};
};
static_assert(sizeof(CollectiveProgress) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace temper
