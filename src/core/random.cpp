#include "temper/core/random.h"

#include <limits>
#include <numeric>
#include <utility>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

template <typename Float>
void fill(const RandomStream& stream, std::uint32_t sample, std::span<Float> out) {
  for (std::size_t begin = 0; begin < out.size(); begin += 4) {
    const PhiloxBlock words = stream.block(sample, static_cast<std::uint32_t>(begin / 4));
    for (std::size_t lane = 0; lane < 4 && begin + lane < out.size(); ++lane) {
      out[begin + lane] = static_cast<Float>(unit_interval(words[lane]));
    }
  }
}

}  // namespace

PhiloxBlock philox(std::uint64_t seed, const PhiloxBlock& counter) {
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  PhiloxBlock c = counter;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1,
         static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

PhiloxBlock RandomStream::block(std::uint32_t sample, std::uint32_t block) const {
  const std::uint32_t first =
      (static_cast<std::uint32_t>(purpose) << 24) | (std::uint32_t{layer} << 16) | step;
  return philox(seed, {first, index, sample, block});
}

std::uint32_t SampleRandom::word() {
  const std::uint32_t lane = element_ % 4;
  if (lane == 0) {
    block_ = stream_.block(sample_, element_ / 4);
  }
  ++element_;
  return block_[lane];
}

std::uint64_t SampleRandom::below(std::uint64_t bound) {
  require(bound > 0, "an empty range has no random element");
  // Words from the incomplete last multiple of the bound are drawn again.
  const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() / bound * bound;
  while (true) {
    const std::uint64_t high = word();
    const std::uint64_t value = (high << 32) | word();
    if (value < limit) {
      return value % bound;
    }
  }
}

void fill_uniform(const RandomStream& stream, std::uint32_t sample, std::span<float> out) {
  fill(stream, sample, out);
}
void fill_uniform(const RandomStream& stream, std::uint32_t sample, std::span<double> out) {
  fill(stream, sample, out);
}

std::vector<std::uint32_t> epoch_permutation(std::uint64_t seed, std::uint32_t epoch,
                                             std::uint64_t count) {
  require(count <= std::numeric_limits<std::uint32_t>::max(), "a data set of ", count,
          " samples is too large");
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  SampleRandom random({.seed = seed, .purpose = Purpose::kShuffle, .index = epoch}, 0);
  for (std::uint64_t i = count; i > 1; --i) {  // Fisher-Yates
    std::swap(order[i - 1], order[random.below(i)]);
  }
  return order;
}

}  // namespace temper
