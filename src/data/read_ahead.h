#pragma once
// When samples are worth reading by threads of their own, and by how many.

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace temper {

// Reading takes microseconds from the page cache and 20 ms from a busy network file system: then as
// many reads must be under way as keep the decoding threads at work.
class ReadAheadControl {
 public:
  // Seconds that one sample took to read, and to decode and transform, by one of `threads`.
  void note(double read_seconds, double load_seconds, std::size_t threads) {
    constexpr double kWeight = 0.05;
    const double weight = count_ < 20 ? 1.0 / static_cast<double>(++count_) : kWeight;
    read_ += weight * (read_seconds - read_);
    load_ += weight * (load_seconds - load_);
    // Apart, so that it does not go to and fro.
    constexpr double kSlow = 2e-3;
    constexpr double kFast = 0.5e-3;
    active_ = read_ > (active_ ? kFast : kSlow);
    if (active_) {
      const double wanted = static_cast<double>(threads) * read_ / std::max(load_, 1e-4);
      readers_ = std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(1.5 * wanted)),
                                         readers_, kMostReaders);
      readers_ = std::min(readers_, most_);
    }
  }
  void limit_readers(std::size_t most) {
    most_ = most;
    readers_ = std::min(readers_, most_);
  }

  [[nodiscard]] bool is_active() const { return active_; }
  [[nodiscard]] std::size_t readers() const { return readers_; }

 private:
  static constexpr std::size_t kMostReaders = 64;
  double read_ = 0;
  double load_ = 0;
  int count_ = 0;
  bool active_ = false;
  std::size_t readers_ = 0;
  std::size_t most_ = kMostReaders;
};

}  // namespace temper
