#pragma once
// Comparison of tensors with the largest difference and its place in the message.

#include <ATen/core/Tensor.h>

#include <string>

namespace temper::testing_support {

// Empty when |a - b| <= tolerance (1 + |b|) everywhere; else a description.
[[nodiscard]] std::string difference(const at::Tensor& actual, const at::Tensor& expected,
                                     double tolerance);

}  // namespace temper::testing_support
