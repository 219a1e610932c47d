#pragma once
// Tests that need devices skip themselves, with the reason, where there are too few.

#include <gtest/gtest.h>

#include "support/rank_processes.h"
#include "support/small_training.h"
#include "temper/dist/device.h"

namespace temper::testing_support {

template <int kCount>
class Gpus : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() < kCount) {
      GTEST_SKIP() << "needs " << kCount << (kCount == 1 ? " GPU, " : " GPUs, ") << visible_gpus()
                   << " visible";
    }
  }
};

using OneGpu = Gpus<1>;
using TwoGpus = Gpus<2>;

[[nodiscard]] inline Placement on_gpu(int index, at::ScalarType dtype) {
  return {at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index)), dtype};
}

// Cases of several ranks, each with the GPU of its number.
void add_several_gpu_cases(RankCases& cases);

}  // namespace temper::testing_support
