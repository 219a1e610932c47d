// The names that LibTorch itself reads.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include "temper/launch/flight_recorder.h"

namespace temper {
namespace {

TEST(FlightRecorder, LibTorchWritesWhereTheVariablesSay) {
  for (const auto& [name, value] : flight_recorder_variables("/attempt", {})) {
    ASSERT_EQ(::setenv(name.c_str(), value.c_str(), 1), 0);
  }
  EXPECT_EQ(c10d::DebugInfoWriter::getWriter(3).getWriterTarget(),
            "/attempt/nccl-collectives-rank-3");
}

}  // namespace
}  // namespace temper
