// Compiled for AVX2 alone; resize_kernels() calls it only where the processor has that.

#include <immintrin.h>

#include <algorithm>
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

constexpr std::size_t kGroup = 4;        // pixels that are taken together
constexpr std::size_t kSpread = 2 * 16;  // 16-bit words for the weights of a group
constexpr std::size_t kRowsAtOnce = 4;   // share the weights

// The weights of each group: the first two for each 32-bit place of the lower half, the others
// above; high halves, then low ones.
void spread_weights(ByteAxis& axis) {
  const __m256i places = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const auto spread = [&](const std::int16_t* weights, std::int16_t* out) {
    const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(four), places));
  };
  axis.spread.resize(axis.high.size() / kGroup * kSpread);
  std::int16_t* out = axis.spread.data();
  for (std::size_t i = 0; i < axis.high.size(); i += kGroup, out += kSpread) {
    spread(axis.high.data() + i, out);
    spread(axis.low.data() + i, out + kSpread / 2);
  }
}

__m128i finished(const Sums& sums) {
  const __m256i total = sums.total();
  const __m128i sum =
      _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
  return _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kResizeBits);
}

// One output of four rows, a pixel in each 32-bit word.
__m128i four_pixels(const std::uint8_t* in, std::size_t stride, std::size_t groups,
                    const std::int16_t* weights) {
  Sums sums[kRowsAtOnce];
  for (std::size_t g = 0; g < groups; ++g, in += 3 * kGroup, weights += kSpread) {
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + kSpread / 2));
    for (std::size_t row = 0; row < kRowsAtOnce; ++row) {
      sums[row].add(pairs_of_pixels(in + row * stride), high, low);
    }
  }
  return _mm_packus_epi16(_mm_packs_epi32(finished(sums[0]), finished(sums[1])),
                          _mm_packs_epi32(finished(sums[2]), finished(sums[3])));
}

// Stores `Bytes` bytes of a pixel for each row: 4 where the next pixel covers the last one, else 3.
template <std::size_t Bytes>
void store_pixels(__m128i pixels, std::uint8_t* out, std::size_t stride) {
  const int values[kRowsAtOnce] = {_mm_cvtsi128_si32(pixels), _mm_extract_epi32(pixels, 1),
                                   _mm_extract_epi32(pixels, 2), _mm_extract_epi32(pixels, 3)};
  for (std::size_t row = 0; row < kRowsAtOnce; ++row) {
    std::memcpy(out + row * stride, &values[row], Bytes);
  }
}

// Four rows, from left to right in the result.
void four_rows(const std::uint8_t* in, std::size_t stride, const ByteAxis& axis, bool mirrored,
               std::uint8_t* out, std::size_t out_stride) {
  const std::size_t count = axis.size();
  const auto pixels = [&](std::size_t i) {
    const std::size_t x = mirrored ? count - 1 - i : i;
    const auto groups = (static_cast<std::size_t>(axis.used[x]) + kGroup - 1) / kGroup;
    return four_pixels(in + 3 * static_cast<std::size_t>(axis.first[x]), stride, groups,
                       axis.spread.data() + x * axis.taps / kGroup * kSpread);
  };
  for (std::size_t i = 0; i + 1 < count; ++i) {
    store_pixels<4>(pixels(i), out + 3 * i, out_stride);
  }
  store_pixels<3>(pixels(count - 1), out + 3 * (count - 1), out_stride);
}

// Bytes behind the first one of a row that are looked at.
std::size_t reach(const ByteAxis& axis) {
  std::size_t bytes = 0;
  for (std::size_t x = 0; x < axis.size(); ++x) {
    const auto last_group = (static_cast<std::size_t>(axis.used[x]) - 1) / kGroup * kGroup;
    bytes = std::max(bytes, 3 * (static_cast<std::size_t>(axis.first[x]) + last_group) + 16);
  }
  return bytes;
}

void columns(const ByteRows& in, ByteAxis& axis, int channels, bool mirrored, std::uint8_t* out,
             std::size_t out_stride) {
  std::size_t y = 0;
  if (channels == 3) {
    spread_weights(axis);
    const std::size_t needed = reach(axis);
    for (; y + kRowsAtOnce <= in.count; y += kRowsAtOnce) {
      const std::uint8_t* row = in.data + y * in.stride;
      const std::uint8_t* last_row = row + (kRowsAtOnce - 1) * in.stride;
      if (static_cast<std::size_t>(in.end - last_row) < needed) {
        break;
      }
      four_rows(row, in.stride, axis, mirrored, out + y * out_stride, out_stride);
    }
  }
  plain_resize_kernels().columns({in.data + y * in.stride, in.end, in.stride, in.count - y}, axis,
                                 channels, mirrored, out + y * out_stride, out_stride);
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
