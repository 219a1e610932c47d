#include "recipe/same_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temper/recipe/load_config.h"

namespace temper {
namespace {

std::string configuration(const std::vector<std::string>& overrides = {}) {
  return print_config(load_config({}, overrides), /*with_comments=*/false);
}

TEST(ConfigurationDifference, IsEmptyWhereNothingOrOnlyTheHostDiffers) {
  EXPECT_EQ(configuration_difference({configuration(), configuration(), configuration()}), "");
  EXPECT_EQ(configuration_difference(
                {configuration(),
                 configuration({"run.name=other", "run.output=/scratch", "logging.every=7up",
                                "logging.level=debug", "logging.tensorboard=false",
                                "data.format=pack", "data.train=/a", "data.validation=/b",
                                "data.test=/c", "data.workers=3", "data.memory_limit=1GiB",
                                "model.initial_weights=w.pt", "distributed.timeout=1min"})}),
            "");
}

TEST(ConfigurationDifference, NamesKeysValuesAndRanks) {
  const std::string main = configuration({"method.beta=6"});
  EXPECT_EQ(
      configuration_difference({main, configuration({"method.beta=3", "logging.every=7up"}), main,
                                configuration({"method.beta=3", "method.attack.steps=4"}),
                                configuration({"method.beta=5"})}),
      "\n  method.attack.steps: 10 on rank 0, 4 on rank 3"
      "\n  method.beta: 6 on rank 0, 3 on ranks 1, 3, 5 on rank 4");
}

TEST(ConfigurationDifference, SeesWhatOneSideLacks) {
  EXPECT_EQ(configuration_difference(
                {configuration(), configuration({"training.weight_average.decay=0.9"})}),
            "\n  training.weight_average.decay: (not set) on rank 0, 0.9 on rank 1"
            "\n  training.weight_average.warmup: (not set) on rank 0, true on rank 1");
}

TEST(ConfigurationDifference, NamesFewOfManyRanks) {
  std::vector<std::string> configurations(12, configuration({"run.seed=5"}));
  configurations[0] = configuration();
  EXPECT_EQ(configuration_difference(configurations),
            "\n  run.seed: 0 on rank 0, 5 on ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more");
}

}  // namespace
}  // namespace temper
