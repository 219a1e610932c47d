#include "temper/launch/flight_recorder.h"

#include <gmock/gmock.h>

#include <fstream>

#include "support/scratch_folder.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(FlightRecorder, WritesIntoTheFolderOfTheAttempt) {
  EXPECT_THAT(
      flight_recorder_variables("/run/logs/attempt-2", {}),
      ElementsAre(Pair("TORCH_FR_BUFFER_SIZE", "2000"),
                  Pair("TORCH_FR_DUMP_TEMP_FILE", "/run/logs/attempt-2/nccl-collectives-rank-"),
                  Pair("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")));
}

TEST(FlightRecorder, LeavesThePlaceToLibTorchWithoutAFolder) {
  EXPECT_FALSE(flight_recorder_variables("", {}).contains("TORCH_FR_DUMP_TEMP_FILE"));
}

TEST(FlightRecorder, KeepsWhatTheUserHasSetUnderEitherName) {
  const EnvironmentVariables added =
      flight_recorder_variables("/logs", {{"TORCH_NCCL_TRACE_BUFFER_SIZE", "0"},
                                          {"TORCH_FR_DUMP_TEMP_FILE", "/mine"},
                                          {"TORCH_NCCL_DUMP_ON_TIMEOUT", ""}});
  EXPECT_THAT(added, IsEmpty());
}

TEST(FlightRecorder, FindsTheDumpsOfTheRanks) {
  const ScratchFolder folder;
  const auto write = [&](const char* name) { std::ofstream(folder / name) << "dump"; };
  write("nccl-collectives-rank-1");
  write("nccl-collectives-rank-0");
  write("rank-0.log");
  EXPECT_THAT(flight_recorder_dumps(folder.path()),
              ElementsAre(folder / "nccl-collectives-rank-0", folder / "nccl-collectives-rank-1"));
  EXPECT_THAT(flight_recorder_dumps(folder / "none"), IsEmpty());
}

}  // namespace
}  // namespace temper
