#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>

#include "temper/dist/delayed_read.h"

namespace temper {

struct DelayedRead::State {
  struct Entry {
    at::Tensor host;
    std::unique_ptr<c10::cuda::CUDAEvent> copied;  // null on the CPU
  };
  std::deque<Entry> entries;
  bool delayed = false;
};

DelayedRead::DelayedRead(at::Device device) : state_(std::make_unique<State>()) {
  state_->delayed = device.is_cuda();
}
DelayedRead::~DelayedRead() = default;

void DelayedRead::push(const at::Tensor& values) {
  if (!state_->delayed) {
    state_->entries.push_back({values, nullptr});
    return;
  }
  at::Tensor host =
      at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(true));
  host.copy_(values, /*non_blocking=*/true);
  auto copied = std::make_unique<c10::cuda::CUDAEvent>();
  copied->record(c10::cuda::getCurrentCUDAStream());
  state_->entries.push_back({host, std::move(copied)});
}

std::optional<at::Tensor> DelayedRead::pop(bool flush) {
  const std::size_t newest = state_->delayed && !flush ? 1 : 0;
  if (state_->entries.size() <= newest) {
    return std::nullopt;
  }
  State::Entry oldest = std::move(state_->entries.front());
  state_->entries.pop_front();
  if (oldest.copied) {
    oldest.copied->synchronize();
  }
  return oldest.host;
}

}  // namespace temper
