#pragma once
// Tensors as the bytes that files hold.

#include <ATen/core/Tensor.h>

#include <string_view>

namespace temper {

// On the CPU, contiguous in the order of the dimensions, without lazy conjugation or negation.
[[nodiscard]] inline at::Tensor to_plain_cpu(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
}

// The elements of a tensor from to_plain_cpu, which must outlive the result.
[[nodiscard]] inline std::string_view bytes_of(const at::Tensor& plain) {
  return {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()};
}

}  // namespace temper
