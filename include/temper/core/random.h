#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a function of (seed, purpose, layer, step, epoch or update,
// sample, element) alone, so it does not depend on the world size, the number of threads or a
// restart. Nothing here has state that is shared between calls.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace temper {

// What a random number is for. The values are part of the format: a resumed run must draw the same
// numbers.
enum class Purpose : std::uint8_t {
  kInitialization = 1,
  kShuffle = 2,
  kAugmentation = 3,
  kAttackStart = 4,
  kDropout = 5,
  kMixing = 6,
  kEvaluation = 7,
  kReplacement = 8,  // of a bad sample
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Four random words for one counter. The key is the seed, low word first.
[[nodiscard]] PhiloxBlock philox(std::uint64_t seed, const PhiloxBlock& counter);

// The part of the counter that is the same for all samples of a batch.
struct RandomStream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kInitialization;
  std::uint8_t layer = 0;
  std::uint16_t step = 0;   // forward or attack step
  std::uint32_t index = 0;  // epoch or update

  // Element e of a sample is word e % 4 of the block with counter `block` = e / 4.
  [[nodiscard]] PhiloxBlock block(std::uint32_t sample, std::uint32_t block) const;
};

// Maps a random word to [0, 1) by its upper 24 bits, exactly.
[[nodiscard]] constexpr double unit_interval(std::uint32_t word) {
  return static_cast<double>(word >> 8) * 0x1p-24;
}

// Draws one number after another from the elements of one sample.
class SampleRandom {
 public:
  SampleRandom(const RandomStream& stream, std::uint32_t sample)
      : stream_(stream), sample_(sample) {}
  [[nodiscard]] std::uint32_t word();
  // Uniform in [0, 1).
  [[nodiscard]] double uniform() { return unit_interval(word()); }
  // Uniform in {0, ..., bound - 1}, without bias; bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);

 private:
  RandomStream stream_;
  std::uint32_t sample_;
  std::uint32_t element_ = 0;
  PhiloxBlock block_{};
};

// Fills `out` with elements 0, 1, ... of one sample, uniform in [0, 1).
void fill_uniform(const RandomStream& stream, std::uint32_t sample, std::span<float> out);
void fill_uniform(const RandomStream& stream, std::uint32_t sample, std::span<double> out);

// A permutation of 0 ... count-1 for one epoch, uniform over all permutations; count < 2^32.
[[nodiscard]] std::vector<std::uint32_t> epoch_permutation(std::uint64_t seed, std::uint32_t epoch,
                                                           std::uint64_t count);

}  // namespace temper
