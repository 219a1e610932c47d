#pragma once
// The two passes of the resize over bytes, in a plain and a vectorised form with equal results.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace temper {

// For neighbouring outputs along one axis: the first input sample and the weights of the samples
// from there on, `taps` places for each output, unused ones 0.
template <typename Weight>
struct ResizeAxis {
  std::size_t taps = 0;
  std::vector<int> first;
  std::vector<int> used;
  std::vector<Weight> weights;

  [[nodiscard]] std::size_t size() const { return first.size(); }
  [[nodiscard]] const Weight* weights_of(std::size_t output) const {
    return weights.data() + output * taps;
  }
};
using FloatAxis = ResizeAxis<float>;

inline constexpr int kResizeBits = 32 - 8 - 2;  // Pillow's: 8-bit samples, two bits of head room
inline constexpr int kResizeLowBits = 11;

// The same with integer weights; `taps` is a multiple of 4. A weight is also kept as
// (high << kResizeLowBits) + low, both halves fit the 16-bit multiplications of vector units.
struct ByteAxis : ResizeAxis<std::int32_t> {
  std::vector<std::int16_t> high, low;
  std::vector<std::int16_t> spread;  // both as the vectorised columns want them
};

// Rows of bytes, `stride` apart.
struct ByteRows {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* end = nullptr;  // what lies before may be read
  std::size_t stride = 0;
  std::size_t count = 0;
};

struct ResizeKernels {
  // Makes axis.size() pixels of each row; `out_stride` bytes lie between two rows of the result.
  // Works on `axis.spread`.
  void (*columns)(const ByteRows& in, ByteAxis& axis, int channels, bool mirrored,
                  std::uint8_t* out, std::size_t out_stride);
  // Output `index` of the axis: `length` weighted sums down the rows, which lie `stride` bytes
  // apart; `in` is the first row with a weight.
  void (*rows)(const std::uint8_t* in, std::size_t stride, const ByteAxis& axis, std::size_t index,
               std::size_t length, std::uint8_t* out);
};

[[nodiscard]] const ResizeKernels& plain_resize_kernels();
// The fastest that this processor has.
[[nodiscard]] const ResizeKernels& resize_kernels();

[[nodiscard]] constexpr std::uint8_t finish_sum(std::int32_t sum) {
  const std::int32_t value = sum >> kResizeBits;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

}  // namespace temper
