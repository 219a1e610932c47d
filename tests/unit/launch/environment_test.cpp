#include "temper/launch/environment.h"

#include <gmock/gmock.h>

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
  const auto with = [](const char* name, const char* value) {
    EnvironmentVariables variables = torchrun_variables();
    variables[name] = value;
    return refusal(variables);
  };
  EXPECT_THAT(with("RANK", "4"), HasSubstr("RANK=4 must be below WORLD_SIZE=4"));
  EXPECT_THAT(with("LOCAL_RANK", "2"), HasSubstr("must be below LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(with("LOCAL_WORLD_SIZE", "5"), HasSubstr("contradicts"));
  EXPECT_THAT(with("RANK", "1x"), HasSubstr("RANK='1x'"));
  EXPECT_THAT(with("RANK", "-1"), HasSubstr("RANK='-1'"));
  EXPECT_THAT(with("WORLD_SIZE", "0"), HasSubstr("WORLD_SIZE='0'"));
  EXPECT_THAT(with("MASTER_PORT", "65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(with("TEMPER_LAUNCHER", "slurm"), HasSubstr("TEMPER_LAUNCHER='slurm'"));
}

TEST(DetectEnvironment, SlurmAndMpiAreRefusedForNow) {
  const std::string later = "not supported yet";
  const EnvironmentVariables step = {{"SLURM_JOB_ID", "7"},
                                     {"SLURM_NTASKS", "2"},
                                     {"SLURM_STEP_ID", "0"},
                                     {"SLURM_STEP_NUM_TASKS", "2"},
                                     {"MASTER_ADDR", "node1"}};
  EXPECT_THAT(refusal(step), HasSubstr(later));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr(later));
  EXPECT_THAT(refusal({{"PMI_SIZE", "2"}}), HasSubstr(later));
  EXPECT_THAT(refusal({}, LauncherChoice::kSlurm), HasSubstr(later));
  EXPECT_THAT(refusal({}, LauncherChoice::kMpi), HasSubstr(later));
}

TEST(DetectEnvironment, SlurmBatchShellPrintsTheLineToUse) {
  const EnvironmentVariables batch = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_THAT(refusal(batch), HasSubstr("srun --ntasks=2"));
  EXPECT_FALSE(detect_environment(LauncherChoice::kSpawn, batch));
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
