#include "data/resize_kernels.h"

#include <algorithm>
#include <array>

namespace temper {

#ifdef TEMPER_AVX2_RESIZE
const ResizeKernels& avx2_resize_kernels();
#endif

namespace {

constexpr std::int32_t kHalf = 1 << (kResizeBits - 1);

template <int Channels>
void columns_of(const std::uint8_t* in, const ByteAxis& axis, bool mirrored, std::uint8_t* out) {
  for (std::size_t x = 0; x < axis.size(); ++x) {
    const std::int32_t* weights = axis.weights_of(x);
    const std::uint8_t* pixel = in + static_cast<std::ptrdiff_t>(axis.first[x]) * Channels;
    std::array<std::int32_t, Channels> sums;
    sums.fill(kHalf);
    for (int k = 0; k < axis.used[x]; ++k, pixel += Channels) {
      for (std::size_t c = 0; c < Channels; ++c) {
        sums[c] += pixel[c] * weights[k];
      }
    }
    std::uint8_t* to = out + (mirrored ? axis.size() - 1 - x : x) * Channels;
    std::transform(sums.begin(), sums.end(), to, finish_sum);
  }
}

void plain_columns(const ByteRows& in, ByteAxis& axis, int channels, bool mirrored,
                   std::uint8_t* out, std::size_t out_stride) {
  for (std::size_t y = 0; y < in.count; ++y) {
    const std::uint8_t* row = in.data + y * in.stride;
    channels == 1 ? columns_of<1>(row, axis, mirrored, out + y * out_stride)
                  : columns_of<3>(row, axis, mirrored, out + y * out_stride);
  }
}

void plain_rows(const std::uint8_t* in, std::size_t stride, const ByteAxis& axis, std::size_t index,
                std::size_t length, std::uint8_t* out) {
  constexpr std::size_t kBlock = 256;  // sums that stay in the fastest cache
  std::array<std::int32_t, kBlock> sums;
  const std::int32_t* weights = axis.weights_of(index);
  for (std::size_t begin = 0; begin < length; begin += kBlock) {
    const std::size_t count = std::min(kBlock, length - begin);
    std::fill_n(sums.begin(), count, kHalf);
    const std::uint8_t* row = in + begin;
    for (int k = 0; k < axis.used[index]; ++k, row += stride) {
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] += row[i] * weights[k];
      }
    }
    std::transform(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(count), out + begin,
                   finish_sum);
  }
}

}  // namespace

const ResizeKernels& plain_resize_kernels() {
  static constexpr ResizeKernels kKernels{plain_columns, plain_rows};
  return kKernels;
}

const ResizeKernels& resize_kernels() {
#ifdef TEMPER_AVX2_RESIZE
  static const bool fast = __builtin_cpu_supports("avx2") != 0;
  if (fast) {
    return avx2_resize_kernels();
  }
#endif
  return plain_resize_kernels();
}

}  // namespace temper
