#include <gmock/gmock.h>

#include "unit/recipe/config_files.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConfigLoading : public ConfigFiles {};

TEST_F(ConfigLoading, AnEmptyFileGivesTheDefaultsAndItsName) {
  Config expected;
  expected.run.name = "c";
  EXPECT_EQ(load("").config, expected);
  EXPECT_EQ(load("# nothing but a comment\n").config, expected);
  EXPECT_EQ(load_config({}).config.run.name, "run");
}

TEST_F(ConfigLoading, AProgramMayAddWords) {
  const MoreChoices more{{"method.name", {"trades", "alp"}}};
  const MethodConfig method = load_config({}, {"method.name=alp"}, more).config.method;
  EXPECT_EQ(method.name, "alp");
  EXPECT_EQ(method.batch_norm_statistics.adversarial_forward, "update")
      << "its forwards are not known";
  const std::string policy = "method.batch_norm_statistics.";
  static_cast<void>(
      load_config({}, {"method.name=alp", policy + "adversarial_forward=batch"}, more));
  const auto error_of = [](const std::vector<std::string>& overrides, const MoreChoices& choices) {
    try {
      static_cast<void>(load_config({}, overrides, choices));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of({"method.name=alpp"}, more), HasSubstr("apgd_at, alp; did you mean 'alp'?"));
  EXPECT_THAT(error_of({"method.name=alp"}, {}), HasSubstr("'alp' is not one of"));
  EXPECT_THAT(error_of({"method.name=alp", policy + "adversarial_forward=batch",
                        policy + "clean_forward=batch"},
                       more),
              HasSubstr("no forward updates the running statistics"));
}

TEST_F(ConfigLoading, ReadsEveryKindOfValue) {
  const Config config = load(R"(
run: {name: "a b", seed: 18446744073709551615, deterministic: true}
data:
  test: some/test
  workers: 3
  memory_limit: 512MiB
  image_size: 32
  transform:
    train:
      - {name: random_crop, padding: 4}
      - horizontal_flip
      - {name: random_resized_crop, size: 32, scale: [0.5, 1]}
    evaluation: []
  normalization: {mean: [0.5, 0.4, 0.3], std: [1/4, 1/5, 1/6]}
threat_model: {epsilon: 8/255}
training: {max_updates: 20, max_time: 11h30m, batch_size_per_process: 4, gradient_clip: 5e-1}
optimizer: {no_decay: [norm, bias]}
schedule: {milestones: [1Msa, 2000ksa], warmup: 2.5ep}
validation: {attack: null, samples: 100, batch_size: 10}
checkpoint: {best: {metric: clean_accuracy}}
)")
                            .config;
  EXPECT_EQ(config.run.name, "a b");
  EXPECT_EQ(config.run.seed, 18446744073709551615U);
  EXPECT_TRUE(config.run.deterministic);
  EXPECT_EQ(config.data.test, "some/test");
  EXPECT_EQ(config.data.workers, 3);
  EXPECT_EQ(config.data.memory_limit.bytes, 512U << 20);
  EXPECT_EQ(config.data.transform.train.preset, "");
  EXPECT_THAT(config.data.transform.train.steps,
              ElementsAre(TransformStepConfig{.name = "random_crop", .size = 32, .padding = 4},
                          TransformStepConfig{.name = "horizontal_flip"},
                          TransformStepConfig{
                              .name = "random_resized_crop", .size = 32, .scale = {0.5, 1}}));
  EXPECT_EQ(config.data.transform.evaluation.preset, "");
  EXPECT_TRUE(config.data.transform.evaluation.steps.empty());
  EXPECT_EQ(config.data.normalization.preset, "");
  EXPECT_THAT(config.data.normalization.std, ElementsAre(0.25, 0.2, 1.0 / 6));
  EXPECT_EQ(config.threat_model.epsilon, 8.0 / 255);
  EXPECT_EQ(config.training.max_updates, 20);
  EXPECT_EQ(config.training.max_time, (TimeLimit{.duration = std::chrono::minutes(690)}));
  EXPECT_EQ(config.training.gradient_clip, 0.5);
  EXPECT_THAT(config.optimizer.no_decay, ElementsAre("norm", "bias"));
  EXPECT_THAT(config.schedule.milestones, ElementsAre(Period{1e6, Period::Unit::kSamples},
                                                      Period{2e6, Period::Unit::kSamples}));
  EXPECT_EQ(config.schedule.warmup, (Period{2.5, Period::Unit::kEpochs}));
  EXPECT_FALSE(config.validation.attack.has_value());
  EXPECT_EQ(config.validation.samples, 100);
  EXPECT_EQ(config.validation.batch_size, 10);
}

TEST_F(ConfigLoading, ColourStepsHaveDefaultsOfTheirOwn) {
  const Config config = load(R"(
data:
  exif_orientation: apply
  transform:
    train:
      - vertical_flip
      - {name: color_jitter, brightness: 0.4, contrast: 0.3, saturation: 0.2, hue: 0.1}
      - {name: random_grayscale, probability: 0.3}
      - {name: rand_augment, operations: 3, magnitude: 4, bins: 5, fill: 128}
      - trivial_augment_wide
      - {name: random_erasing, scale: [0.1, 0.2], ratio: [1, 2], value: noise}
      - random_erasing
)")
                            .config;
  EXPECT_EQ(config.data.exif_orientation, "apply");
  EXPECT_THAT(
      config.data.transform.train.steps,
      ElementsAre(
          TransformStepConfig{.name = "vertical_flip"},
          TransformStepConfig{.name = "color_jitter",
                              .brightness = 0.4,
                              .contrast = 0.3,
                              .saturation = 0.2,
                              .hue = 0.1},
          TransformStepConfig{.name = "random_grayscale", .gray_probability = 0.3},
          TransformStepConfig{
              .name = "rand_augment", .operations = 3, .magnitude = 4, .bins = 5, .fill = 128},
          TransformStepConfig{.name = "trivial_augment_wide"},
          TransformStepConfig{.name = "random_erasing",
                              .erased_scale = {0.1, 0.2},
                              .erased_ratio = {1, 2},
                              .value = "noise"},
          TransformStepConfig{
              .name = "random_erasing", .erased_scale = {0.02, 0.33}, .erased_ratio = {0.3, 3.3}}));
}

TEST_F(ConfigLoading, ExactlyOneBatchSizeIsSet) {
  EXPECT_EQ(load("").config.training.global_batch_size, 512);
  EXPECT_EQ(load("training: {global_batch_size: null}").config.training.global_batch_size, 512);
  const std::vector<std::string> per_process{"training: {batch_size_per_process: 16}",
                                             "training: {batch_size_per_process: 16, "
                                             "global_batch_size: null}"};
  for (const std::string& text : per_process) {
    const TrainingConfig training = load(text).config.training;
    EXPECT_EQ(training.batch_size_per_process, 16);
    EXPECT_FALSE(training.global_batch_size.has_value());
  }
  EXPECT_EQ(
      load("training: {accumulation: 600, batch_size_per_process: 1}").config.training.accumulation,
      600);
}

TEST_F(ConfigLoading, FgsmIsResolvedToOneStepOfSizeEpsilon) {
  const Config config = load(
                            "threat_model: {epsilon: 0.2}\n"
                            "method: {name: mixed, attack: {name: fgsm}}\n"
                            "validation: {attack: {name: fgsm}}\n")
                            .config;
  for (const AttackConfig& attack : {config.method.attack, *config.validation.attack}) {
    EXPECT_EQ(attack.steps, 1);
    EXPECT_EQ(attack.step_size, 0.2);
    EXPECT_EQ(attack.random_start, "none");
  }
}

TEST_F(ConfigLoading, MethodsBringAnAttackOfTheirOwn) {
  const auto attack_of = [&](const std::string& method) {
    return load("threat_model: {epsilon: 0.2}\nmethod: {name: " + method + "}\n")
        .config.method.attack;
  };
  const AttackConfig fgsm_rs = attack_of("fgsm_rs");
  EXPECT_EQ(fgsm_rs.steps, 1);
  EXPECT_EQ(fgsm_rs.step_size, 0.25);
  EXPECT_EQ(fgsm_rs.random_start, "uniform");
  EXPECT_EQ(fgsm_rs.start_radius, 1);
  const AttackConfig n_fgsm = attack_of("n_fgsm");
  EXPECT_EQ(n_fgsm.steps, 1);
  EXPECT_EQ(n_fgsm.step_size, 0.2);
  EXPECT_EQ(n_fgsm.start_radius, 2);
  const AttackConfig free = attack_of("free");
  EXPECT_EQ(free.step_size, 0.2);
  EXPECT_EQ(free.random_start, "none");
  const AttackConfig apgd = attack_of("apgd_at");
  EXPECT_EQ(apgd.name, "apgd");
  EXPECT_EQ(apgd.steps, 2);
  EXPECT_EQ(apgd.keep, "best");
  EXPECT_EQ(apgd.random_start, "none");
  // What is written wins.
  EXPECT_EQ(
      load("method: {name: fgsm_rs, attack: {step_size: 0.01}}\n").config.method.attack.step_size,
      0.01);
}

TEST_F(ConfigLoading, LaterFilesWinKeyByKey) {
  write("a.yaml", "method: {beta: 1, label_smoothing: 0.1}\nschedule: {milestones: [1ep, 2ep]}\n");
  write("b.yaml", "method: {beta: 2}\nschedule: {milestones: [3ep]}\n");
  const LoadedConfig loaded = load_config({"a.yaml", "b.yaml"});
  EXPECT_EQ(loaded.config.method.beta, 2);
  EXPECT_EQ(loaded.config.method.label_smoothing, 0.1);
  EXPECT_EQ(loaded.config.schedule.milestones.size(), 1U);
  EXPECT_EQ(loaded.config.run.name, "b");
  EXPECT_EQ(loaded.origin.at("method.beta"), "b.yaml:1");
  EXPECT_EQ(loaded.origin.at("method.label_smoothing"), "a.yaml:1");
  EXPECT_FALSE(loaded.origin.contains("run.seed"));
}

TEST_F(ConfigLoading, IncludesAreRelativeAndComeBeforeTheFile) {
  write("sub/top.yaml", "run: {seed: 3}\ninclude: [../first.yaml, second.yaml]\n");
  write("first.yaml", "run: {seed: 1, output: first}\nmethod: {beta: 1}\n");
  write("sub/second.yaml", "include: third.yaml\nmethod: {beta: 2}\n");
  write("sub/third.yaml", "method: {beta: 9}\ntraining:\n  epochs: 7\n");
  const LoadedConfig loaded = load_config({"sub/top.yaml"});
  EXPECT_EQ(loaded.config.run.seed, 3U);
  EXPECT_EQ(loaded.config.run.output, "first");
  EXPECT_EQ(loaded.config.method.beta, 2);
  EXPECT_EQ(loaded.config.training.epochs, 7);
  EXPECT_EQ(loaded.origin.at("run.output"), "first.yaml:1");
  EXPECT_EQ(loaded.origin.at("training.epochs"), "sub/third.yaml:3");
}

TEST_F(ConfigLoading, TheSameFileMayBeIncludedTwice) {
  write("a.yaml", "include: [b.yaml, c.yaml]\n");
  write("b.yaml", "include: base.yaml\n");
  write("c.yaml", "include: base.yaml\n");
  write("base.yaml", "run: {seed: 5}\n");
  EXPECT_EQ(load_config({"a.yaml"}).config.run.seed, 5U);
}

TEST_F(ConfigLoading, OverridesReplaceWholeValues) {
  const LoadedConfig loaded =
      load("method: {attack: {steps: 7, start_scale: 0.5}}\n",
           {"method.attack={steps: 8}", "data.transform.train=[]", "run.name=a=b",
            "training.epochs=2", "training.epochs=3", "threat_model.epsilon=2/255"});
  EXPECT_EQ(loaded.config.method.attack.steps, 8);
  EXPECT_EQ(loaded.config.method.attack.start_scale, 0.001);
  EXPECT_EQ(loaded.config.data.transform.train, (TransformConfig{.preset = ""}));
  EXPECT_EQ(loaded.config.run.name, "a=b");
  EXPECT_EQ(loaded.config.training.epochs, 3);
  EXPECT_EQ(loaded.config.threat_model.epsilon, 2.0 / 255);
  EXPECT_EQ(loaded.origin.at("training.epochs"), "command line");
}

// Unless the user says otherwise.
TEST_F(ConfigLoading, ReferenceOrderHasTheModesOfTheOfficialCode) {
  const auto statistics = [&](const std::string& method) {
    return load("method: {" + method + "}\n").config.method.batch_norm_statistics;
  };
  const BatchNormStatisticsConfig trades = statistics("name: trades, reference_order: true");
  EXPECT_EQ(trades.attack, "running");
  EXPECT_EQ(trades.clean_forward, "update");
  EXPECT_EQ(trades.adversarial_forward, "update");
  const BatchNormStatisticsConfig pgd_at = statistics("name: pgd_at, reference_order: true");
  EXPECT_EQ(pgd_at.attack, "update");
  EXPECT_EQ(pgd_at.adversarial_forward, "update");
  EXPECT_EQ(statistics("name: trades").adversarial_forward, "batch");
  EXPECT_EQ(statistics("name: pgd_at").attack, "running");
  EXPECT_EQ(statistics("name: pgd_at, reference_order: true, batch_norm_statistics: {attack: "
                       "running}")
                .attack,
            "running");
}

TEST_F(ConfigLoading, KeysWithoutEffectAreNamed) {
  EXPECT_THAT(
      load("method:\n  name: standard\n  beta: 2\noptimizer: {name: adamw, momentum: 0.5}\n")
          .notices,
      ElementsAre("c.yaml:3:9: method.beta: has no effect with method standard",
                  "c.yaml:4:36: optimizer.momentum: has no effect with optimizer adamw"));
  EXPECT_THAT(load("schedule: {name: cosine, milestones: [75ep, 90ep]}\n").notices, ElementsAre());
  EXPECT_THAT(load("method:\n  name: free\n  beta: 2\n"
                   "  batch_norm_statistics: {attack: update, clean_forward: batch}\n")
                  .notices,
              ElementsAre("c.yaml:3:9: method.beta: has no effect with method free",
                          "c.yaml:4:35: method.batch_norm_statistics.attack: has no effect with "
                          "method free",
                          "c.yaml:4:58: method.batch_norm_statistics.clean_forward: has no effect "
                          "with method free"));
}

TEST_F(ConfigLoading, WhatBeginsAfterTheEndOfTheTrainingIsNamed) {
  const auto notices = [&](const std::string& method, const std::string& validation = "") {
    return load(concat("training: {epochs: 10}\nmethod: {", method, "}\nvalidation: {", validation,
                       "}\n"))
        .notices;
  };
  EXPECT_THAT(notices("weight_perturbation: {gamma: 0.01, start_epoch: 9}"), ElementsAre());
  EXPECT_THAT(notices("weight_perturbation: {}"),
              ElementsAre("c.yaml:2:31: method.weight_perturbation: has no effect in a training of "
                          "10 epochs: it starts with epoch 10"));
  EXPECT_THAT(notices("start_epoch: 6, epsilon_warmup: 4ep"), ElementsAre());
  EXPECT_THAT(notices("start_epoch: 7, epsilon_warmup: 4ep"),
              ElementsAre("c.yaml:2:42: method.epsilon_warmup: ends after the training of 10 "
                          "epochs, which never reaches the whole epsilon"));
  EXPECT_THAT(notices("start_epoch: 10"),
              ElementsAre("c.yaml:2:23: method.start_epoch: has no effect but to train on clean "
                          "images to the end"));
  EXPECT_THAT(notices("overfitting_check: {every: 11ep}"),
              ElementsAre("c.yaml:2:29: method.overfitting_check: has no effect in a training of "
                          "10 epochs"));
  EXPECT_THAT(notices("", "every: 2ep, patience: 4"), ElementsAre());
  EXPECT_THAT(notices("", "every: 2ep, patience: 5"),
              ElementsAre("c.yaml:3:36: validation.patience: has no effect in a training of 10 "
                          "epochs with validation.every: 2ep"));
}

class ConfigPrinting : public ConfigFiles {
 protected:
  static void expect_round_trip(const LoadedConfig& loaded) {
    for (const bool with_comments : {true, false}) {
      const std::string text = print_config(loaded, with_comments);
      write("printed.yaml", text);
      const LoadedConfig again = load_config({"printed.yaml"});
      EXPECT_EQ(again.config, loaded.config) << text;
      EXPECT_EQ(print_config(again, false), print_config(loaded, false));
    }
  }
};

TEST_F(ConfigPrinting, RoundTrip) {
  expect_round_trip(load(""));
  expect_round_trip(load("", {"training.max_time=auto"}));
  expect_round_trip(
      load("", {"run.name=\"null\"", "run.output='a: \"b\" #\\\n'", "data.test='tab\there'",
                "data.workers=7", "validation.attack=null", "checkpoint.best.metric=clean_accuracy",
                "training.batch_size_per_process=3", "training.max_time=1234ms",
                "training.gradient_clip=0.1234567890123", "schedule.warmup=0.3ep",
                "schedule.milestones=[3000000up, 4000001up]", "logging.every=12Msa",
                "validation.every=1500sa", "data.memory_limit=1234567B",
                "threat_model.epsilon=7/255", "method.beta=10/3"}));
  expect_round_trip(load(
      "data: {normalization: {mean: [0.1, 0.2, 0.3], std: [1/3, 0.2, 0.3]}, transform: {train: "
      "[{name: random_resized_crop, ratio: [3/4, 4/3]}, {name: horizontal_flip, probability: 1}], "
      "evaluation: [{name: resize, size: 36}, center_crop]}, image_size: 32}\n"
      "method: {name: mixed, attack: {name: fgsm}}\noptimizer: {no_decay: [norm]}\n"));
  for (const char* method :
       {"standard", "pgd_at", "mixed", "trades", "mart", "fgsm_rs", "n_fgsm", "free", "apgd_at"}) {
    for (const char* epsilon : {"8/255", "0.031", "1/3"}) {
      expect_round_trip(load(concat("method: {name: ", method, "}\nthreat_model: {epsilon: ",
                                    epsilon, "}\nvalidation: {attack: {name: apgd}}\n")));
    }
  }
}

TEST_F(ConfigPrinting, CommentsSayWhereAValueCameFrom) {
  const std::string text =
      print_config(load("method:\n  beta: 2\n", {"threat_model.epsilon=2/255"}));
  EXPECT_THAT(text, HasSubstr("\n  beta: 2  # c.yaml:2\n"));
  EXPECT_THAT(text, HasSubstr("\n  epsilon: 2/255  # command line\n"));
  EXPECT_THAT(text, HasSubstr("\n  epochs: 100  # default\n"));
  EXPECT_THAT(text, HasSubstr("\n    adversarial_forward: batch  # default\n"));
  EXPECT_EQ(print_config(load(""), false).find('#'), std::string::npos);
}

TEST_F(ConfigPrinting, NormalizationIsReadFromAnyVersion) {
  const LoadedConfig lists =
      load("data: {normalization: {mean: [0.5, 0.4, 1/3], std: [0.25, 0.2, 0.1]}}\n");
  EXPECT_EQ(read_normalization(print_config(lists)), lists.config.data.normalization);
  EXPECT_EQ(
      read_normalization("data:\n  normalization: cifar10\n  new_key: 1\nnew: {a: [b]}\n").preset,
      "cifar10");
  EXPECT_THROW(static_cast<void>(read_normalization("data: {normalization: tomorrow}")),
               ConfigError);
}

TEST(ConfigurationReference, TheCommittedPageIsUpToDate) {
  EXPECT_EQ(read_file(TEMPER_SOURCE_DIR "/docs/configuration.md"), configuration_reference())
      << "run the program config_reference and put its output there";
}

std::string recipe(const std::string& name) {
  return concat(TEMPER_SOURCE_DIR "/configs/", name, ".yaml");
}

TEST(Recipes, EachOneLoadsWithoutNotices) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TEMPER_SOURCE_DIR "/configs")) {
    if (entry.is_regular_file()) {
      SCOPED_TRACE(entry.path());
      EXPECT_THAT(load_config({entry.path()}).notices, ElementsAre());
      ++count;
    }
  }
  EXPECT_GE(count, 6);
}

TEST(Recipes, Imagenet100ShowsTheDefaults) {
  Config expected;
  expected.run.name = "resnet18_imagenet100";
  const LoadedConfig loaded = load_config({recipe("resnet18_imagenet100")});
  EXPECT_EQ(loaded.config, expected);
  EXPECT_EQ(print_config(loaded).find("# default"), std::string::npos) << "it explains every key";
}

TEST(Recipes, DigitsDifferInTheMethodAndTheBestCheckpointAlone) {
  Config trades = load_config({recipe("digits_trades")}).config;
  for (const std::string name : {"digits_standard", "digits_mixed_fgsm"}) {
    const Config other = load_config({recipe(name)}).config;
    trades.run = other.run;
    trades.method = other.method;
    trades.checkpoint.best = other.checkpoint.best;
    EXPECT_EQ(trades, other);
  }
}

}  // namespace
}  // namespace temper
