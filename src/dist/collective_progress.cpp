#include "temper/dist/collective_progress.h"

#include <algorithm>
#include <cstring>

#include "temper/core/text.h"

namespace temper {
namespace {

template <std::size_t Words>
using Cells = std::array<std::atomic<std::uint64_t>, Words>;

// A text in whole words, so that a reader of another process never races with a byte.
template <std::size_t Words>
class Text {
 public:
  void append(std::string_view text) noexcept {
    const std::size_t count = std::min(text.size(), sizeof(bytes_) - size_);
    std::memcpy(bytes_.data() + size_, text.data(), count);
    size_ += count;
  }
  void store(Cells<Words>& cells) const noexcept {
    for (std::size_t i = 0; i < Words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes_.data() + 8 * i, 8);
      cells[i].store(word, std::memory_order_relaxed);
    }
  }

 private:
  std::array<char, 8 * Words> bytes_{};
  std::size_t size_ = 0;
};

template <std::size_t Words>
std::string load(const Cells<Words>& cells) {
  std::array<char, 8 * Words> bytes{};
  for (std::size_t i = 0; i < Words; ++i) {
    const std::uint64_t word = cells[i].load(std::memory_order_relaxed);
    std::memcpy(bytes.data() + 8 * i, &word, 8);
  }
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0')};
}

}  // namespace

std::string to_string(const CollectiveState& state) {
  if (state.begun == 0) {
    return {};
  }
  return concat("#", state.begun - 1, " ", state.kind, " x ", state.numel,
                state.purpose.empty() ? "" : concat(" (", state.purpose, ")"));
}

void CollectiveProgress::begin(std::string_view operation, std::string_view dtype,
                               std::int64_t numel, std::string_view purpose) noexcept {
  Text<kKindLength / 8> kind;
  kind.append(operation);
  kind.append(" ");
  kind.append(dtype);
  Text<kPurposeLength / 8> purpose_text;
  purpose_text.append(purpose);
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  begun_.store(begun_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  numel_.store(numel, std::memory_order_relaxed);
  kind.store(kind_);
  purpose_text.store(purpose_);
  version_.store(version + 2, std::memory_order_release);
}

void CollectiveProgress::end_all() noexcept {
  ended_.store(begun_.load(std::memory_order_relaxed), std::memory_order_release);
}

CollectiveState CollectiveProgress::read() const {
  CollectiveState state;
  // A rank that was killed in mid-write leaves an odd version forever: then take what is there.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::uint64_t before = version_.load(std::memory_order_acquire);
    state = {.begun = begun_.load(std::memory_order_relaxed),
             .ended = ended_.load(std::memory_order_relaxed),
             .kind = load(kind_),
             .numel = numel_.load(std::memory_order_relaxed),
             .purpose = load(purpose_)};
    std::atomic_thread_fence(std::memory_order_acquire);
    state.whole = before % 2 == 0 && version_.load(std::memory_order_relaxed) == before;
    if (state.whole) {
      break;
    }
  }
  return state;
}

}  // namespace temper
