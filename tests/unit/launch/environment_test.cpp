#include "temper/launch/environment.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

using testing::HasSubstr;

EnvironmentVariables torchrun_variables() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "localhost"},
          {"MASTER_PORT", "29501"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_RUN_ID", "none"}};
}

std::string refusal(const EnvironmentVariables& variables,
                    LauncherChoice choice = LauncherChoice::kAuto) {
  try {
    static_cast<void>(detect_environment(choice, variables));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DetectEnvironment, EmptyEnvironmentIsTheLauncher) {
  EXPECT_FALSE(detect_environment(LauncherChoice::kAuto, {}));
}

TEST(DetectEnvironment, TorchrunGivesEveryField) {
  const auto rank = detect_environment(LauncherChoice::kAuto, torchrun_variables());
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 3);
  EXPECT_EQ(rank->world_size, 4);
  EXPECT_EQ(rank->local_rank, 1);
  EXPECT_EQ(rank->local_world_size, 2);
  EXPECT_EQ(rank->master_address, "localhost");
  EXPECT_EQ(rank->master_port, 29501);
  EXPECT_EQ(launcher_name(rank->launcher), "torchrun");
  EXPECT_TRUE(rank->store_is_hosted);
  EXPECT_EQ(rank->restart_count, 2);
  EXPECT_EQ(rank->run_id, "none");
}

TEST(DetectEnvironment, TupleSetByHandLetsRankZeroHostTheStore) {
  EnvironmentVariables variables = torchrun_variables();
  variables.erase("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_FALSE(detect_environment(LauncherChoice::kEnvironment, variables)->store_is_hosted);
}

TEST(DetectEnvironment, OwnWorkerStaysOneWhateverTheChoice) {
  EnvironmentVariables variables = torchrun_variables();
  variables["TEMPER_LAUNCHER"] = "spawn";
  variables["TEMPER_RUN_DIR"] = "runs/a/001";
  variables["TEMPER_CONSOLE"] = "terminal";
  variables["SLURM_STEP_ID"] = "0";
  variables["SLURM_STEP_NUM_TASKS"] = "8";
  for (const LauncherChoice choice :
       {LauncherChoice::kAuto, LauncherChoice::kSpawn, LauncherChoice::kNone}) {
    const auto rank = detect_environment(choice, variables);
    ASSERT_TRUE(rank);
    EXPECT_EQ(rank->launcher, LauncherKind::kSpawn);
    EXPECT_TRUE(rank->store_is_hosted);
    EXPECT_EQ(rank->run_directory, "runs/a/001");
    EXPECT_TRUE(rank->console_is_terminal);
  }
}

TEST(DetectEnvironment, ChoiceOverrides) {
  EXPECT_FALSE(detect_environment(LauncherChoice::kSpawn, torchrun_variables()));
  const auto alone = detect_environment(LauncherChoice::kNone, torchrun_variables());
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->world_size, 1);
  EXPECT_EQ(launcher_name(alone->launcher), "none");
}

TEST(DetectEnvironment, PartOfTheTupleNamesPresentAndMissing) {
  EnvironmentVariables variables = torchrun_variables();
  variables.erase("WORLD_SIZE");
  variables.erase("MASTER_PORT");
  EXPECT_THAT(refusal(variables), HasSubstr("present RANK, LOCAL_RANK, MASTER_ADDR; missing "
                                            "WORLD_SIZE, MASTER_PORT"));
  EXPECT_THAT(refusal({{"MASTER_ADDR", "a"}}), HasSubstr("missing RANK, WORLD_SIZE, LOCAL_RANK"));
  EXPECT_THAT(refusal({}, LauncherChoice::kEnvironment), HasSubstr("present none"));
}

TEST(DetectEnvironment, EmptyVariableCountsAsMissing) {
  EnvironmentVariables variables = torchrun_variables();
  variables["RANK"] = "";
  EXPECT_THAT(refusal(variables), HasSubstr("missing RANK"));
}

TEST(DetectEnvironment, ContradictionsAreNamed) {
  const auto refused = [](const char* name, const char* value) {
    EnvironmentVariables variables = torchrun_variables();
    variables[name] = value;
    return refusal(variables);
  };
  EXPECT_THAT(refused("RANK", "4"), HasSubstr("RANK=4 must be below WORLD_SIZE=4"));
  EXPECT_THAT(refused("LOCAL_RANK", "2"), HasSubstr("must be below LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(refused("LOCAL_WORLD_SIZE", "5"), HasSubstr("contradicts"));
  EXPECT_THAT(refused("RANK", "1x"), HasSubstr("RANK='1x'"));
  EXPECT_THAT(refused("RANK", "-1"), HasSubstr("RANK='-1'"));
  EXPECT_THAT(refused("WORLD_SIZE", "0"), HasSubstr("WORLD_SIZE='0'"));
  EXPECT_THAT(refused("MASTER_PORT", "65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(refused("TEMPER_LAUNCHER", "slurm"), HasSubstr("TEMPER_LAUNCHER='slurm'"));
}

EnvironmentVariables step_variables() {
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_NTASKS", "3"},
          {"SLURM_STEP_ID", "1"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
          {"SLURM_STEP_NODELIST", "gpu[08-09]"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "1"},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.99"}};
}

EnvironmentVariables with(EnvironmentVariables variables, const char* name, const char* value) {
  variables[name] = value;
  return variables;
}

TEST(DetectEnvironment, SlurmStepGivesEveryField) {
  const auto rank = detect_environment(LauncherChoice::kAuto, step_variables());
  ASSERT_TRUE(rank);
  EXPECT_EQ(launcher_name(rank->launcher), "srun");
  EXPECT_EQ(rank->rank, 2);
  EXPECT_EQ(rank->world_size, 3);
  EXPECT_EQ(rank->local_rank, 0);
  EXPECT_EQ(rank->local_world_size, 1);
  EXPECT_EQ(rank->nodes, 2);
  EXPECT_EQ(rank->master_address, "gpu08");
  EXPECT_TRUE(rank->master_is_derived);
  EXPECT_FALSE(rank->store_is_hosted);
  EXPECT_EQ(rank->restart_count, 0);
}

TEST(DetectEnvironment, SlurmHeedsWhatTheUserExports) {
  EnvironmentVariables variables = with(step_variables(), "MASTER_ADDR", "10.0.0.8");
  variables["MASTER_PORT"] = "29555";
  variables["SLURM_RESTART_COUNT"] = "2";
  const auto rank = detect_environment(LauncherChoice::kAuto, variables);
  EXPECT_EQ(rank->master_address, "10.0.0.8");
  EXPECT_FALSE(rank->master_is_derived);
  EXPECT_EQ(rank->master_port, 29555);
  EXPECT_EQ(rank->restart_count, 2);
}

TEST(DetectEnvironment, SlurmStepOnOneNodeMeetsOnLoopback) {
  EnvironmentVariables variables = with(step_variables(), "SLURM_STEP_NUM_NODES", "1");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "3";
  variables["SLURM_STEP_NODELIST"] = "gpu08";
  variables["SLURM_NODEID"] = "0";
  const auto rank = detect_environment(LauncherChoice::kSlurm, variables);
  EXPECT_EQ(rank->master_address, "127.0.0.1");
  EXPECT_EQ(rank->local_world_size, 3);
}

TEST(DetectEnvironment, SlurmPortFollowsFromJobStepAndArrayTask) {
  const auto port = [](const EnvironmentVariables& variables) {
    return detect_environment(LauncherChoice::kAuto, variables)->master_port;
  };
  const int first = port(step_variables());
  EXPECT_GE(first, 20000);
  EXPECT_LT(first, 40000);
  EXPECT_EQ(port(with(step_variables(), "SLURM_PROCID", "1")), first);
  EXPECT_NE(port(with(step_variables(), "SLURM_JOB_ID", "8")), first);
  EXPECT_NE(port(with(step_variables(), "SLURM_STEP_ID", "2")), first);
  EnvironmentVariables array = with(step_variables(), "SLURM_ARRAY_JOB_ID", "7");
  array["SLURM_ARRAY_TASK_ID"] = "1";
  const int task = port(array);
  EXPECT_NE(task, first);
  EXPECT_NE(port(with(array, "SLURM_ARRAY_TASK_ID", "2")), task);
}

TEST(DetectEnvironment, SlurmStepInPartNamesPresentAndMissing) {
  EnvironmentVariables variables = step_variables();
  variables.erase("SLURM_NODEID");
  variables.erase("SLURM_STEP_NODELIST");
  EXPECT_THAT(refusal(variables), HasSubstr("missing SLURM_STEP_NODELIST, SLURM_NODEID"));
  EXPECT_THAT(refusal({}, LauncherChoice::kSlurm), HasSubstr("present none"));
}

TEST(DetectEnvironment, SlurmContradictionsAreNamed) {
  const auto refused = [](const char* name, const char* value) {
    return refusal(with(step_variables(), name, value));
  };
  EXPECT_THAT(refused("SLURM_PROCID", "3"), HasSubstr("SLURM_PROCID=3 must be below"));
  EXPECT_THAT(refused("SLURM_LOCALID", "1"), HasSubstr("SLURM_LOCALID=1"));
  EXPECT_THAT(refused("SLURM_NODEID", "2"), HasSubstr("SLURM_NODEID=2"));
  EXPECT_THAT(refused("SLURM_STEP_TASKS_PER_NODE", "2(x2)"), HasSubstr("is 4, but"));
  EXPECT_THAT(refused("SLURM_STEP_TASKS_PER_NODE", "3"), HasSubstr("is 1, but"));
  EXPECT_THAT(refused("SLURM_STEP_NODELIST", "gpu[1-3]"), HasSubstr("is 3, but"));
  EXPECT_THAT(refused("SLURM_STEP_NODELIST", "gpu[1-"), HasSubstr("host list 'gpu[1-'"));
}

TEST(DetectEnvironment, AllocationWithoutAStepPrintsTheLineToUse) {
  const EnvironmentVariables batch = {{"SLURM_JOB_ID", "7"},        {"SLURM_NTASKS", "2"},
                                      {"SLURM_CPUS_PER_TASK", "4"}, {"SLURM_PROCID", "0"},
                                      {"SLURM_LOCALID", "0"},       {"MASTER_ADDR", "node1"}};
  const std::vector<std::string> command = {"./trainer", "--config", "my runs/c.yaml", "a=[b]"};
  try {
    static_cast<void>(detect_environment(LauncherChoice::kAuto, batch, command));
    ADD_FAILURE() << "one process runs instead of two";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("\n  srun --ntasks=2 --kill-on-bad-exit=1 --wait=60 --cpus-per-task=4 "
                          "./trainer --config 'my runs/c.yaml' 'a=[b]'\n"));
  }
  EXPECT_FALSE(detect_environment(LauncherChoice::kSpawn, batch));
  // The shell that salloc opens is a step by number only.
  EXPECT_THAT(
      refusal(with(with(batch, "SLURM_STEP_ID", "4294967290"), "SLURM_STEP_NUM_TASKS", "1")),
      HasSubstr("srun --ntasks=2"));
  EXPECT_THAT(refusal({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}}),
              HasSubstr("srun --nodes=2 --ntasks-per-node=1"));
  // An agent on each node, started by srun, is no matter of ours.
  EnvironmentVariables torchrun = torchrun_variables();
  torchrun.insert(batch.begin(), batch.end());
  EXPECT_EQ(detect_environment(LauncherChoice::kAuto, torchrun)->launcher, LauncherKind::kTorchrun);
}

EnvironmentVariables open_mpi_variables() {
  return {{"OMPI_COMM_WORLD_SIZE", "4"},       {"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
          {"PMIX_NAMESPACE", "123"},           {"PMIX_RANK", "3"}};
}

TEST(DetectEnvironment, OpenMpiGivesEveryField) {
  const auto rank = detect_environment(LauncherChoice::kAuto, open_mpi_variables());
  ASSERT_TRUE(rank);
  EXPECT_EQ(launcher_name(rank->launcher), "mpirun");
  EXPECT_EQ(rank->rank, 3);
  EXPECT_EQ(rank->world_size, 4);
  EXPECT_EQ(rank->local_rank, 3);
  EXPECT_EQ(rank->local_world_size, 4);
  EXPECT_EQ(rank->nodes, 1);
  EXPECT_EQ(rank->master_address, "127.0.0.1");
  EXPECT_FALSE(rank->store_is_hosted);
  EXPECT_NE(
      rank->master_port,
      detect_environment(LauncherChoice::kMpi, with(open_mpi_variables(), "PMIX_NAMESPACE", "124"))
          ->master_port);
  // Also inside an allocation: mpirun's processes are no step.
  EnvironmentVariables batch = with(open_mpi_variables(), "SLURM_JOB_ID", "7");
  batch["SLURM_NTASKS"] = "4";
  EXPECT_EQ(detect_environment(LauncherChoice::kAuto, batch)->launcher, LauncherKind::kMpi);
}

TEST(DetectEnvironment, OpenMpiOnSeveralHostsNeedsTheMaster) {
  EnvironmentVariables variables = with(open_mpi_variables(), "OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  EXPECT_THAT(refusal(variables), HasSubstr("export MASTER_ADDR"));
  variables["MASTER_ADDR"] = "n1";
  const auto rank = detect_environment(LauncherChoice::kAuto, variables);
  EXPECT_EQ(rank->master_address, "n1");
  EXPECT_EQ(rank->nodes, 2);
}

TEST(DetectEnvironment, PmiGivesEveryField) {
  EnvironmentVariables variables = {
      {"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}};
  EXPECT_THAT(refusal(variables), HasSubstr("set MASTER_PORT"));
  variables["MASTER_PORT"] = "29400";
  const auto rank = detect_environment(LauncherChoice::kAuto, variables);
  ASSERT_TRUE(rank);
  EXPECT_EQ(launcher_name(rank->launcher), "mpirun");
  EXPECT_EQ(rank->rank, 1);
  EXPECT_EQ(rank->local_rank, 1);
  EXPECT_EQ(rank->local_world_size, 2);
  EXPECT_EQ(rank->master_port, 29400);
}

TEST(DetectEnvironment, MvapichGivesEveryField) {
  const auto rank = detect_environment(LauncherChoice::kAuto, {{"MV2_COMM_WORLD_SIZE", "2"},
                                                               {"MV2_COMM_WORLD_RANK", "1"},
                                                               {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
                                                               {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                                                               {"PMI_SIZE", "2"},
                                                               {"PMI_RANK", "1"},
                                                               {"MASTER_PORT", "29400"}});
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 1);
  EXPECT_EQ(rank->local_rank, 1);
}

TEST(DetectEnvironment, MpiInPartNamesPresentAndMissing) {
  EnvironmentVariables variables = open_mpi_variables();
  variables.erase("OMPI_COMM_WORLD_RANK");
  EXPECT_THAT(refusal(variables), HasSubstr("missing OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal({}, LauncherChoice::kMpi), HasSubstr("present none"));
}

TEST(DetectEnvironment, TwoLaunchersMustAgree) {
  // Variables of a batch script that every task of the step inherits.
  EnvironmentVariables both = step_variables();
  both.merge(torchrun_variables());
  both.erase("TORCHELASTIC_RUN_ID");
  EXPECT_THAT(refusal(both), HasSubstr("the environment names two ranks"));
  EXPECT_EQ(detect_environment(LauncherChoice::kEnvironment, both)->rank, 3);
  EXPECT_EQ(detect_environment(LauncherChoice::kSlurm, with(both, "MASTER_ADDR", "a"))->rank, 2);
  both["RANK"] = "2";
  both["WORLD_SIZE"] = "3";
  both["LOCAL_RANK"] = "0";
  EXPECT_EQ(detect_environment(LauncherChoice::kAuto, both)->rank, 2);
  // Daemons of mpirun that srun has started.
  EnvironmentVariables daemons = step_variables();
  daemons.merge(open_mpi_variables());
  EXPECT_THAT(refusal(daemons), HasSubstr("OMPI_COMM_WORLD_RANK=3 of OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_EQ(detect_environment(LauncherChoice::kMpi, daemons)->rank, 3);
}

TEST(SlurmJob, NamesJobAndArrayTask) {
  EXPECT_EQ(slurm_job({}), "");
  EXPECT_EQ(slurm_job({{"SLURM_JOB_ID", "7"}}), "7");
  EXPECT_EQ(
      slurm_job({{"SLURM_JOB_ID", "9"}, {"SLURM_ARRAY_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", "2"}}),
      "7_2");
}

TEST(DetectEnvironment, SingleTasksAreLaunchers) {
  EXPECT_FALSE(
      detect_environment(LauncherChoice::kAuto, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "1"}}));
  EXPECT_FALSE(detect_environment(
      LauncherChoice::kAuto,
      {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(detect_environment(LauncherChoice::kAuto, {{"OMPI_COMM_WORLD_SIZE", "1"}}));
}

TEST(ParseLauncherChoice, KnowsItsWords) {
  EXPECT_EQ(parse_launcher_choice("env"), LauncherChoice::kEnvironment);
  EXPECT_THROW(static_cast<void>(parse_launcher_choice("pbs")), ConfigError);
}

}  // namespace
}  // namespace temper
