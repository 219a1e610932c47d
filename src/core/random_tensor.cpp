#include "temper/core/random_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/special_ndtri.h>
#include <ATen/ops/stack.h>

#include <functional>
#include <numeric>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::int64_t kLow32 = 0xFFFFFFFF;

std::int64_t product(at::IntArrayRef shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check_samples(const at::Tensor& samples) {
  require(samples.device().is_cpu() && samples.scalar_type() == at::kLong && samples.dim() == 1,
          "sample indices must be an int64 vector on the CPU");
}

template <typename Float>
void fill_rows(const RandomStream& stream, const at::Tensor& samples, at::Tensor& out,
               std::int64_t elements) {
  const at::Tensor indices = samples.contiguous();
  const std::int64_t* index = indices.const_data_ptr<std::int64_t>();
  Float* data = out.mutable_data_ptr<Float>();
  at::parallel_for(0, samples.numel(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      fill_uniform(stream, static_cast<std::uint32_t>(index[row]),
                   std::span<Float>(data + row * elements, static_cast<std::size_t>(elements)));
    }
  });
}

// High and low words of a 32 x 32 bit product, on int64 tensors that hold unsigned 32-bit values.
struct WidePair {
  at::Tensor high;
  at::Tensor low;
};
WidePair multiply_words(const at::Tensor& words, std::int64_t multiplier) {
  const at::Tensor low_part = words.bitwise_and(0xFFFF) * multiplier;
  const at::Tensor high_part =
      words.bitwise_right_shift(16) * multiplier + low_part.bitwise_right_shift(16);
  return {high_part.bitwise_right_shift(16).bitwise_and(kLow32),
          (high_part.bitwise_and(0xFFFF).bitwise_left_shift(16))
              .bitwise_or(low_part.bitwise_and(0xFFFF))};
}

}  // namespace

at::Tensor uniform_by_tensor_operations(const RandomStream& stream, const at::Tensor& samples,
                                        std::int64_t elements, const at::TensorOptions& options) {
  check_samples(samples);
  const std::int64_t blocks = (elements + 3) / 4;
  const auto words = options.dtype(at::kLong);
  const std::vector<std::int64_t> shape{samples.numel(), blocks};
  const std::int64_t first = (std::int64_t{static_cast<std::uint8_t>(stream.purpose)} << 24) |
                             (std::int64_t{stream.layer} << 16) | stream.step;
  std::vector<at::Tensor> c{
      at::empty(shape, words).fill_(first),
      at::empty(shape, words).fill_(std::int64_t{stream.index}),
      samples.to(options.device(), at::kLong, /*non_blocking=*/true).unsqueeze(1).expand(shape),
      at::arange(blocks, words).expand(shape)};
  std::uint32_t key0 = static_cast<std::uint32_t>(stream.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const WidePair a = multiply_words(c[0], 0xD2511F53);
    const WidePair b = multiply_words(c[2], 0xCD9E8D57);
    c = {b.high.bitwise_xor(c[1]).bitwise_xor(std::int64_t{key0}), b.low,
         a.high.bitwise_xor(c[3]).bitwise_xor(std::int64_t{key1}), a.low};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  const at::Tensor flat =
      at::stack(c, 2).view({samples.numel(), blocks * 4}).narrow(1, 0, elements);
  return flat.bitwise_right_shift(8).to(options.dtype()) * 0x1p-24;
}

at::Tensor uniform_tensor(const RandomStream& stream, const at::Tensor& samples,
                          at::IntArrayRef sample_shape, const at::TensorOptions& options) {
  check_samples(samples);
  const std::int64_t elements = product(sample_shape);
  std::vector<std::int64_t> shape{samples.numel()};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  if (!options.device().is_cpu()) {
    return uniform_by_tensor_operations(stream, samples, elements, options).view(shape);
  }
  at::Tensor out = at::empty({samples.numel(), elements}, options);
  if (out.scalar_type() == at::kDouble) {
    fill_rows<double>(stream, samples, out, elements);
  } else {
    require(out.scalar_type() == at::kFloat, "random tensors are float32 or float64");
    fill_rows<float>(stream, samples, out, elements);
  }
  return out.view(shape);
}

at::Tensor normal_tensor(const RandomStream& stream, const at::Tensor& samples,
                         at::IntArrayRef sample_shape, const at::TensorOptions& options) {
  const at::Tensor uniform =
      uniform_tensor(stream, samples, sample_shape, options.dtype(at::kDouble));
  return at::special_ndtri(uniform + 0x1p-25).to(options.dtype());
}

}  // namespace temper
