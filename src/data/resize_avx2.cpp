// Compiled for AVX2 alone; resize_kernels() calls it only where the processor has that.

#include <immintrin.h>

#include <cstring>

#include "data/resize_kernels.h"

namespace temper {
namespace {

constexpr std::int32_t kHalf = 1 << (kResizeBits - 1);

// Sums of products with the two halves of the weights.
struct Sums {
  __m256i high = _mm256_setzero_si256();
  __m256i low = _mm256_setzero_si256();

  void add(__m256i pixels, __m256i weights_high, __m256i weights_low) {
    high = _mm256_add_epi32(high, _mm256_madd_epi16(pixels, weights_high));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(pixels, weights_low));
  }
  [[nodiscard]] __m256i total() const {
    return _mm256_add_epi32(_mm256_slli_epi32(high, kResizeLowBits), low);
  }
};

// Bytes of four RGB pixels as 16-bit pairs of neighbours, a channel each: pixels 0 and 1 in the
// lower half, 2 and 3 in the upper one.
__m256i pairs_of_pixels(const std::uint8_t* pixels) {
  const __m256i pattern =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), pattern);
}

// Four 16-bit weights: the first two for each 32-bit place of the lower half, the others above.
__m256i spread_weights(const std::int16_t* weights) {
  const __m256i places = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights));
  return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(four), places);
}

std::uint32_t rgb_sum(const std::uint8_t* pixels, const ByteAxis& axis, std::size_t x) {
  Sums sums;
  const std::size_t begin = x * axis.taps;
  for (int k = 0; k < axis.used[x]; k += 4) {
    const std::size_t at = begin + static_cast<std::size_t>(k);
    sums.add(pairs_of_pixels(pixels + 3 * k), spread_weights(axis.high.data() + at),
             spread_weights(axis.low.data() + at));
  }
  const __m256i total = sums.total();
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
  sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kResizeBits);
  sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(sum));
}

void columns(const std::uint8_t* in, const std::uint8_t* end, const ByteAxis& axis, int channels,
             bool mirrored, std::uint8_t* out) {
  if (channels != 3) {
    plain_resize_kernels().columns(in, end, axis, channels, mirrored, out);
    return;
  }
  const std::ptrdiff_t readable = end - in;
  for (std::size_t x = 0; x < axis.size(); ++x) {
    const std::ptrdiff_t offset = 3 * static_cast<std::ptrdiff_t>(axis.first[x]);
    const int last_group = (axis.used[x] - 1) / 4 * 4;
    std::uint8_t* to = out + 3 * (mirrored ? axis.size() - 1 - x : x);
    if (offset + 3 * last_group + 16 <= readable) [[likely]] {
      const std::uint32_t pixel = rgb_sum(in + offset, axis, x);
      std::memcpy(to, &pixel, 3);
      continue;
    }
    std::int32_t sums[3] = {kHalf, kHalf, kHalf};
    for (int k = 0; k < axis.used[x]; ++k) {
      for (int c = 0; c < 3; ++c) {
        sums[c] += in[offset + 3 * k + c] * axis.weights_of(x)[k];
      }
    }
    for (int c = 0; c < 3; ++c) {
      to[c] = finish_sum(sums[c]);
    }
  }
}

__m256i two_weights(const std::int16_t* weights) {
  std::int32_t pair;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm256_set1_epi32(pair);
}

__m256i shift_down(const Sums& sums) {
  return _mm256_srai_epi32(_mm256_add_epi32(sums.total(), _mm256_set1_epi32(kHalf)), kResizeBits);
}

void rows(const std::uint8_t* in, std::size_t stride, const ByteAxis& axis, std::size_t index,
          std::size_t length, std::uint8_t* out) {
  const std::int16_t* high = axis.high.data() + index * axis.taps;
  const std::int16_t* low = axis.low.data() + index * axis.taps;
  const auto used = static_cast<std::size_t>(axis.used[index]);
  std::size_t i = 0;
  for (; i + 16 <= length; i += 16) {
    Sums left, right;
    for (std::size_t k = 0; k < used; k += 2) {
      const std::uint8_t* row = in + i + k * stride;
      const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
      // A row without weight need not be there.
      const __m128i lower = k + 1 < used
                                ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + stride))
                                : _mm_setzero_si128();
      const __m256i weights_high = two_weights(high + k);
      const __m256i weights_low = two_weights(low + k);
      left.add(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(upper, lower)), weights_high, weights_low);
      right.add(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(upper, lower)), weights_high, weights_low);
    }
    // Packing works within halves: [l0 r0 | l1 r1] is put in order before the last step.
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(shift_down(left), shift_down(right)), 0b11'01'10'00);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes);
  }
  if (i < length) {
    plain_resize_kernels().rows(in + i, stride, axis, index, length - i, out + i);
  }
}

}  // namespace

const ResizeKernels& avx2_resize_kernels() {
  static constexpr ResizeKernels kKernels{columns, rows};
  return kKernels;
}

}  // namespace temper
