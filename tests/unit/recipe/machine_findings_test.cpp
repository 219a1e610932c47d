#include <gmock/gmock.h>

#include "recipe/machine_facts.h"

namespace temper {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// A machine with two GPUs and nothing wrong.
MachineFacts good_machine() {
  return {.host = "n1",
          .processes = 2,
          .has_cuda_support = true,
          .driver = "580.65.06",
          .gpus = {{.name = "H200", .uuid = "GPU-1"}, {.name = "H200", .uuid = "GPU-2"}},
          .cpus = 16,
          .memory = {.total = 64 * kGiB, .available = 60 * kGiB},
          .limits = {{"nofile", 1024, 4096}, {"memlock", std::nullopt, std::nullopt}},
          .shared_memory = {.path = "/dev/shm", .total = 32ULL << 30U, .is_writable = true},
          .working_directory = {.path = "/work", .free = 1ULL << 40U, .is_writable = true},
          .own_name = {.name = "n1", .addresses = {"10.0.0.1"}}};
}

auto finding(bool is_problem, const char* check, const char* text) {
  return AllOf(Field(&Finding::is_problem, is_problem), Field(&Finding::check, check),
               Field(&Finding::text, HasSubstr(text)));
}
auto problem(const char* check, const char* text) { return finding(true, check, text); }
auto note(const char* check, const char* text) { return finding(false, check, text); }

TEST(MachineFindings, AGoodMachineHasNone) { EXPECT_THAT(judge(good_machine(), {}), IsEmpty()); }

TEST(MachineFindings, SmallSharedMemoryIsAProblemForNccl) {
  MachineFacts facts = good_machine();
  facts.shared_memory.total = 64ULL << 20U;
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("shared memory", "--shm-size=1g")));
  facts.gpus.clear();
  facts.driver.clear();
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("gpus", "no NVIDIA driver"),
                                            note("shared memory", "/dev/shm has 64 MiB")));
}

TEST(MachineFindings, MissingSharedMemory) {
  MachineFacts facts = good_machine();
  facts.shared_memory = {.path = "/dev/shm", .error = "No such file or directory"};
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("shared memory", "No such file")));
}

TEST(MachineFindings, GpusThatDoNotReachEachOther) {
  MachineFacts facts = good_machine();
  facts.gpus_out_of_reach = {{0, 1}};
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("gpus", "ACS")));
}

TEST(MachineFindings, DriverWithoutVisibleGpu) {
  MachineFacts facts = good_machine();
  facts.gpus.clear();
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("gpus", "older than CUDA 13")));
  facts.variables = {{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("gpus", "CUDA_VISIBLE_DEVICES hides them")));
  facts.has_cuda_support = false;
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("gpus", "build the preset cuda")));
}

TEST(MachineFindings, Limits) {
  MachineFacts facts = good_machine();
  facts.has_infiniband = true;
  facts.limits = {{"nofile", 100, 100}, {"memlock", 8ULL << 20U, {}}, {"fsize", 1ULL << 20U, {}}};
  EXPECT_THAT(judge(facts, {}),
              ElementsAre(problem("limits", "only 100 open files are allowed, 128"),
                          note("limits", "files may have 1 MiB"), note("limits", "ulimit -l")));
}

TEST(MachineFindings, MemoryAndCores) {
  MachineFacts facts = good_machine();
  facts.processes = 12;
  facts.cpus = 4;
  facts.memory = {.total = 2 * kGiB, .available = kGiB};
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("cpus", "12 processes share 4 CPU cores"),
                                            note("memory", "12 processes take")));
  facts.memory.cgroup_limit = kGiB / 4;
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("cpus", "12 processes share 4 CPU cores"),
                                            problem("memory", "the cgroup of this process")));
}

TEST(MachineFindings, NamesMatterWhereSeveralHostsMeet) {
  MachineFacts facts = good_machine();
  facts.own_name.addresses = {"127.0.1.1", "::1"};
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("network", "right for one host")));
  facts.nodes = 2;
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("network", "127.0.1.1, ::1 alone")));
  facts.own_name.addresses = {"127.0.1.1", "10.0.0.1"};
  facts.master = Resolution{.name = "n0", .error = "Name or service not known"};
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("network", "n0 does not resolve")));
  facts.master = Resolution{.name = "localhost", .addresses = {"127.0.0.1"}};
  facts.nodes = 1;
  EXPECT_THAT(judge(facts, {}), IsEmpty());
}

TEST(MachineFindings, WorkingDirectory) {
  MachineFacts facts = good_machine();
  facts.working_directory.free = 1000;
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("disk", "may not fit")));
  facts.working_directory.is_writable = false;
  EXPECT_THAT(judge(facts, {}), ElementsAre(note("disk", "not writable")));
}

TEST(MachineFindings, AFailedAllReduceIsAProblem) {
  const AllReduceResult failed{.ranks = 2, .backend = "nccl", .error = "lost another rank"};
  EXPECT_THAT(judge(good_machine(), failed),
              ElementsAre(problem("all-reduce", "NCCL_P2P_DISABLE=1 it works")));
}

TEST(MachineFindings, AnEnvironmentThatContradictsItself) {
  MachineFacts facts = good_machine();
  facts.environment_error = "RANK without WORLD_SIZE";
  EXPECT_THAT(judge(facts, {}), ElementsAre(problem("launcher", "RANK without")));
}

TEST(MachineFacts, ShowsOnlyVariablesThatMatter) {
  EXPECT_THAT(
      variables_that_matter({{"NCCL_DEBUG", "INFO"},
                             {"RANK", "0"},
                             {"SLURM_JOB_ID", "1"},
                             {"AWS_SECRET_KEY", "x"},
                             {"HOME", "/root"}}),
      ElementsAre(testing::Key("NCCL_DEBUG"), testing::Key("RANK"), testing::Key("SLURM_JOB_ID")));
}

}  // namespace
}  // namespace temper
