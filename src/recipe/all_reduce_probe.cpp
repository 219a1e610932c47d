#include "recipe/all_reduce_probe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "temper/core/error.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Waits for the device, too.
double time_of(Communicator& communicator, at::Tensor& tensor, std::int64_t repetitions) {
  const Clock::time_point start = Clock::now();
  for (std::int64_t i = 0; i < repetitions; ++i) {
    communicator.all_reduce_sum(tensor);
  }
  static_cast<void>(tensor.flatten()[0].item<float>());
  return seconds_since(start);
}

// Seconds of one all-reduce, repeated for about `budget` seconds. The slowest rank's first turns
// decide how often, so that all ranks do the same.
double seconds_each(Communicator& communicator, at::Tensor& tensor, double budget) {
  constexpr std::int64_t kFirst = 3;
  constexpr std::int64_t kMost = 100'000;
  at::Tensor slowest = at::empty({1}, at::kDouble);
  slowest.fill_(time_of(communicator, tensor, kFirst) / kFirst);
  communicator.all_reduce_max(slowest);
  const auto repetitions = static_cast<std::int64_t>(
      std::clamp(budget / std::max(slowest.item<double>(), 1e-9), 1.0, double{kMost}));
  return time_of(communicator, tensor, repetitions) / static_cast<double>(repetitions);
}

}  // namespace

AllReduceResult probe_all_reduce(Communicator& communicator, const at::Device& device) {
  const Clock::time_point start = Clock::now();
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor number = at::full({1}, communicator.rank() + 1.0, options);
  communicator.all_reduce_sum(number);
  const int world = communicator.world_size();
  const double expected = world * (world + 1) / 2.0;
  require(number.item<float>() == expected, "the all-reduce of the numbers 1 to ", world, " is ",
          number.item<float>(), " instead of ", expected);
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  constexpr double kLatencyBudget = 0.2;
  constexpr double kBandwidthBudget = 0.7;
  number.zero_();  // sums of sums would overflow
  at::Tensor large = at::zeros({kElements}, options);
  AllReduceResult result{.latency_seconds = seconds_each(communicator, number, kLatencyBudget),
                         .bytes = kElements * 4};
  result.bytes_per_second =
      static_cast<double>(result.bytes) / seconds_each(communicator, large, kBandwidthBudget);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace temper
