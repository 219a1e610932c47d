#pragma once
// Reads small results of an update on the host without making the host wait for the device.

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace temper {

// On the CPU a pushed tensor can be read at once. On CUDA it is copied to pinned memory behind the
// work that makes it, and can be read after the next push: the host stays one update behind.
class DelayedRead {
 public:
  explicit DelayedRead(at::Device device);
  ~DelayedRead();
  DelayedRead(const DelayedRead&) = delete;
  DelayedRead& operator=(const DelayedRead&) = delete;

  void push(const at::Tensor& values);
  // The oldest tensor that may be read, on the CPU; with `flush` also the last one pushed.
  [[nodiscard]] std::optional<at::Tensor> pop(bool flush);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace temper
