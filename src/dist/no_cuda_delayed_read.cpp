#include <deque>

#include "temper/core/error.h"
#include "temper/dist/delayed_read.h"

namespace temper {

struct DelayedRead::State {
  std::deque<at::Tensor> values;
};

DelayedRead::DelayedRead(at::Device device) : state_(std::make_unique<State>()) {
  require(device.is_cpu(), "a build without CUDA has no other device than the CPU");
}
DelayedRead::~DelayedRead() = default;

void DelayedRead::push(const at::Tensor& values) { state_->values.push_back(values); }

std::optional<at::Tensor> DelayedRead::pop(bool /*flush*/) {
  if (state_->values.empty()) {
    return std::nullopt;
  }
  at::Tensor oldest = state_->values.front();
  state_->values.pop_front();
  return oldest;
}

}  // namespace temper
