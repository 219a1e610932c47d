#include "temper/recipe/memory_report.h"

#include <gmock/gmock.h>

#include "temper/core/error.h"

namespace temper {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::string memory_error(int processes, std::int64_t model, const HostMemory& memory) {
  try {
    static_cast<void>(check_host_memory(processes, model, memory));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostMemoryCheck, FewProcessesOnALargeHostAreFine) {
  EXPECT_EQ(check_host_memory(2, 0, {.total = 24 * kGiB, .available = 20 * kGiB}), "");
}

TEST(HostMemoryCheck, RefusesWhatCannotFitIntoAllMemory) {
  EXPECT_THAT(memory_error(999, 0, {.total = 23 * kGiB, .available = 20 * kGiB}),
              AllOf(HasSubstr("--nproc 999: the processes need at least 39.0 GiB"),
                    HasSubstr("this host has 23.0 GiB"), HasSubstr("at most 588 on this host")));
  EXPECT_THAT(memory_error(4, 10 * kGiB, {.total = 23 * kGiB, .available = 20 * kGiB}),
              HasSubstr("at most 2"));
}

TEST(HostMemoryCheck, TheCgroupCountsWhereItIsSmaller) {
  const HostMemory memory{.total = 100 * kGiB, .available = 90 * kGiB, .cgroup_limit = kGiB};
  EXPECT_THAT(memory_error(30, 0, memory), HasSubstr("the cgroup of this process allows 1.0 GiB"));
  EXPECT_THAT(check_host_memory(6, 0, memory), HasSubstr("1.0 GiB are available in this cgroup"));
  EXPECT_EQ(check_host_memory(2, 0, memory), "");
}

TEST(HostMemoryCheck, WarnsAboveFourFifthsOfWhatIsAvailable) {
  const HostMemory memory{.total = 100 * kGiB, .available = 10 * kGiB};
  EXPECT_EQ(check_host_memory(8, kGiB - 150 * kMiB, memory), "");
  EXPECT_THAT(check_host_memory(9, kGiB - 150 * kMiB, memory),
              HasSubstr("9 processes take about 9.0 GiB"));
}

TEST(HostMemoryCheck, NothingIsKnownNothingIsRefused) {
  EXPECT_EQ(check_host_memory(1000, kGiB, {}), "");
}

TEST(PhaseMemory, KeepsTheHighestPeakOfEachPhase) {
  PhaseMemory phases;
  phases.enter("attack", 5);
  phases.enter("forward_backward", 70);
  phases.enter("attack", 90);
  phases.enter("forward_backward", 20);
  phases.enter("attack", 30);
  EXPECT_EQ(phases.peaks(60),
            (PhaseMemory::Peaks{{"start", 5}, {"attack", 70}, {"forward_backward", 90}}));
  EXPECT_EQ(phases.peaks(80).at("attack"), 80);
  EXPECT_EQ(phases.current(), "attack");
}

GpuExhaustion exhausted(const std::string& phase) {
  return {.device = 1,
          .error = "CUDA out of memory. Tried to allocate 2.00 GiB.",
          .phase = phase,
          .memory = {.allocated = 30 * kGiB,
                     .reserved = 31 * kGiB,
                     .peak_allocated = 33 * kGiB,
                     .free = kGiB,
                     .total = 40 * kGiB},
          .peaks = {{"start", 0}, {"attack", 20 * kGiB}, {"forward_backward", 33 * kGiB}}};
}

TEST(GpuExhaustion, SaysWhereTheMemoryIsAndWhatToLower) {
  const std::string text = gpu_exhaustion_text(exhausted("forward_backward"));
  EXPECT_THAT(text, HasSubstr("ran out on cuda:1 in phase forward_backward: CUDA out of memory. "
                              "Tried to allocate 2.00 GiB."));
  EXPECT_THAT(text, HasSubstr("30720 MiB allocated, 31744 MiB reserved, peak 33792 MiB"));
  EXPECT_THAT(text, HasSubstr("39936 MiB of 40960 MiB in use, 8192 MiB of it outside"));
  EXPECT_THAT(text, HasSubstr("peak in phase forward_backward: 33792 MiB\n"
                              "  peak in phase attack: 20480 MiB\n"));
  EXPECT_THAT(text, Not(HasSubstr("phase start")));
  EXPECT_THAT(text, HasSubstr("training.accumulation"));
  EXPECT_THAT(text, Not(HasSubstr("expandable_segments")));
}

TEST(GpuExhaustion, InAValidationItsBatchSizeCounts) {
  const std::string text = gpu_exhaustion_text(exhausted("validation"));
  EXPECT_THAT(text, HasSubstr("validation.batch_size"));
  EXPECT_THAT(text, Not(HasSubstr("training.accumulation")));
}

TEST(GpuExhaustion, NamesFragmentation) {
  GpuExhaustion exhaustion = exhausted("attack");
  exhaustion.memory.allocated = 20 * kGiB;
  EXPECT_THAT(gpu_exhaustion_text(exhaustion), HasSubstr("expandable_segments:True"));
}

}  // namespace
}  // namespace temper
