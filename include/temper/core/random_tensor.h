#pragma once
// Tensors of keyed random numbers, one row a sample. Equal on every device: a CPU tensor is filled
// by the scalar generator, other devices compute the same words with tensor operations.

#include <ATen/core/Tensor.h>

#include "temper/core/random.h"

namespace temper {

// Uniform in [0, 1), shape [samples, sample_shape...]. `samples`: int64 [N] on the CPU. `options`
// gives dtype (float32 or float64) and device; both dtypes hold the same values.
[[nodiscard]] at::Tensor uniform_tensor(const RandomStream& stream, const at::Tensor& samples,
                                        at::IntArrayRef sample_shape,
                                        const at::TensorOptions& options);

// Standard normal by the inverse distribution function of the uniform's interval midpoint.
[[nodiscard]] at::Tensor normal_tensor(const RandomStream& stream, const at::Tensor& samples,
                                       at::IntArrayRef sample_shape,
                                       const at::TensorOptions& options);

// The device-independent form of uniform_tensor by tensor operations alone; public for the test
// that compares both.
[[nodiscard]] at::Tensor uniform_by_tensor_operations(const RandomStream& stream,
                                                      const at::Tensor& samples,
                                                      std::int64_t elements,
                                                      const at::TensorOptions& options);

}  // namespace temper
