// From the keys of a configuration to the options of methods, attacks and optimizers: each key
// arrives where it is meant to.

#include "temper/recipe/build.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "temper/methods/standard_training.h"
#include "unit/recipe/config_files.h"

namespace temper {
namespace {

// What the factories were asked for; what they make is of no interest.
struct Asked {
  MethodOptions method;
  bool has_attack = false;
  std::string attack_name;
  ThreatModel threat_model;
  PgdOptions attack;
};

Catalogs recording_catalogs(Asked& asked) {
  const Catalogs library;
  Catalogs catalogs{
      .architectures = built_in_architectures(),
      .attacks = Catalog<Attack, ThreatModel, PgdOptions>("attack"),
      .methods = Catalog<TrainingMethod, std::shared_ptr<const Attack>, MethodOptions>("method")};
  for (const std::string& name : library.attacks.names()) {
    catalogs.attacks.add(name,
                         [&asked, name](const ThreatModel& threat, const PgdOptions& options) {
                           asked.attack_name = name;
                           asked.threat_model = threat;
                           asked.attack = options;
                           return std::make_shared<PgdAttack>(threat, options);
                         });
  }
  for (const std::string& name : library.methods.names()) {
    catalogs.methods.add(
        name, [&asked](const std::shared_ptr<const Attack>& attack, const MethodOptions& options) {
          asked.has_attack = attack != nullptr;
          asked.method = options;
          return std::make_shared<StandardTraining>(options);
        });
  }
  return catalogs;
}

class Build : public ConfigFiles {
 protected:
  static Asked method(const std::string& text) {
    Asked asked;
    const Catalogs catalogs = recording_catalogs(asked);
    const RunShape shape{.epochs = 100, .updates_per_epoch = 50, .samples_per_epoch = 5000};
    static_cast<void>(build_method(load(text).config, catalogs, shape));
    return asked;
  }
  static Asked validation(const std::string& text) {
    Asked asked;
    const Config config = load(text).config;
    static_cast<void>(build_attack(config, *config.validation.attack, recording_catalogs(asked)));
    return asked;
  }
};

TEST_F(Build, AMethodGetsItsKeys) {
  const Asked plain = method("method: {name: trades}\n");
  EXPECT_EQ(plain.method.beta, 6);
  EXPECT_FALSE(plain.method.weight_perturbation);
  EXPECT_FALSE(plain.method.reference_order);
  const Asked asked = method(
      "threat_model: {norm: l2, epsilon: 0.5}\n"
      "method:\n"
      "  name: trades\n"
      "  beta: 2.5\n"
      "  label_smoothing: 0.1\n"
      "  start_epoch: 3\n"
      "  epsilon_warmup: 2ep\n"
      "  reference_order: true\n"
      "  weight_perturbation: {gamma: 0.02, start_epoch: 7}\n"
      "  batch_norm_statistics: {attack: batch, clean_forward: update, adversarial_forward: "
      "running}\n");
  EXPECT_EQ(asked.method.beta, 2.5);
  EXPECT_EQ(asked.method.label_smoothing, 0.1);
  EXPECT_EQ(asked.method.start_epoch, 3);
  EXPECT_EQ(asked.method.epsilon_warmup, 100);
  EXPECT_TRUE(asked.method.reference_order);
  ASSERT_TRUE(asked.method.weight_perturbation);
  EXPECT_EQ(asked.method.weight_perturbation->gamma, 0.02);
  EXPECT_EQ(asked.method.weight_perturbation->start_epoch, 7);
  EXPECT_EQ(asked.method.statistics.attack, StatisticsMode::kBatch);
  EXPECT_EQ(asked.method.statistics.clean_forward, StatisticsMode::kUpdate);
  EXPECT_EQ(asked.method.statistics.adversarial_forward, StatisticsMode::kRunning);
  EXPECT_EQ(asked.threat_model.norm, Norm::kL2);
  EXPECT_EQ(asked.threat_model.epsilon, 0.5);
  EXPECT_TRUE(asked.attack.trades_l2_steps);
  EXPECT_TRUE(asked.attack.projects);
}

TEST_F(Build, AnAttackGetsItsKeys) {
  const std::string keys =
      "attack: {name: pgd, steps: 7, step_size: 0.03, random_start: normal, start_scale: 0.2, "
      "restarts: 3, keep: best, target: random}";
  for (const Asked& asked : {method("method: {name: pgd_at, " + keys + "}\n"),
                             validation("validation: {" + keys + "}\n")}) {
    EXPECT_EQ(asked.attack_name, "pgd");
    EXPECT_EQ(asked.attack.steps, 7);
    EXPECT_EQ(asked.attack.step_size, 0.03);
    EXPECT_EQ(asked.attack.random_start, RandomStart::kNormal);
    EXPECT_EQ(asked.attack.start_scale, 0.2);
    EXPECT_EQ(asked.attack.restarts, 3);
    EXPECT_TRUE(asked.attack.keep_best);
    EXPECT_EQ(asked.attack.target, AttackTarget::kRandom);
    EXPECT_EQ(asked.threat_model.norm, Norm::kLinf);
    EXPECT_EQ(asked.threat_model.epsilon, 4.0 / 255);
    EXPECT_TRUE(asked.attack.projects);
    EXPECT_FALSE(asked.attack.trades_l2_steps);
  }
  EXPECT_EQ(
      validation("validation: {attack: {target: least_likely, start_radius: 0.5}}\n").attack.target,
      AttackTarget::kLeastLikely);
  EXPECT_EQ(validation("validation: {attack: {start_radius: 0.5}}\n").attack.start_radius, 0.5);
  EXPECT_EQ(validation("validation: {attack: {name: apgd}}\n").attack_name, "apgd");
  EXPECT_EQ(validation("threat_model: {norm: l1, epsilon: 12}\n").threat_model.norm, Norm::kL1);
}

TEST_F(Build, SingleStepMethodsBringTheirAttack) {
  const std::string epsilon = "threat_model: {epsilon: 0.1}\n";
  const Asked n_fgsm = method(epsilon + "method: {name: n_fgsm}\n");
  EXPECT_FALSE(n_fgsm.attack.projects);
  EXPECT_EQ(n_fgsm.attack.start_radius, 2);
  EXPECT_EQ(n_fgsm.attack.steps, 1);
  EXPECT_EQ(n_fgsm.attack.step_size, 0.1);
  const Asked fgsm_rs = method(epsilon + "method: {name: fgsm_rs}\n");
  EXPECT_TRUE(fgsm_rs.attack.projects);
  EXPECT_EQ(fgsm_rs.attack.start_radius, 1);
  EXPECT_DOUBLE_EQ(fgsm_rs.attack.step_size, 0.125);
  EXPECT_EQ(method("method: {name: apgd_at}\n").attack_name, "apgd");
}

TEST_F(Build, FreeGetsItsKeys) {
  const Asked by_default = method("threat_model: {epsilon: 0.1}\nmethod: {name: free}\n");
  EXPECT_FALSE(by_default.has_attack);
  EXPECT_EQ(by_default.method.free.replays, 8);
  EXPECT_EQ(by_default.method.free.step_size, 0.1);
  EXPECT_EQ(by_default.method.free.clamp, NoiseClamp::kImage);
  const Asked asked = method(
      "threat_model: {norm: l2, epsilon: 0.5}\n"
      "method: {name: free, replays: 3, noise_clamp: noise, label_smoothing: 0.2, epsilon_warmup: "
      "1ep, attack: {step_size: 0.2}}\n");
  EXPECT_EQ(asked.method.free.replays, 3);
  EXPECT_EQ(asked.method.free.step_size, 0.2);
  EXPECT_EQ(asked.method.free.clamp, NoiseClamp::kNoise);
  EXPECT_EQ(asked.method.free.threat_model.norm, Norm::kL2);
  EXPECT_EQ(asked.method.free.threat_model.epsilon, 0.5);
  EXPECT_EQ(asked.method.label_smoothing, 0.2);
  EXPECT_EQ(asked.method.epsilon_warmup, 50);
}

TEST_F(Build, TheCheckForOverfittingAttacksWithItsOwnSteps) {
  Asked asked;
  const Config config = load("threat_model: {epsilon: 0.2}\nmethod: {name: fgsm_rs}\n").config;
  static_cast<void>(overfitting_attack(config, recording_catalogs(asked)));
  EXPECT_EQ(asked.attack.steps, 5);
  EXPECT_DOUBLE_EQ(asked.attack.step_size, 0.05);
  EXPECT_EQ(asked.attack.random_start, RandomStart::kUniform);
  EXPECT_EQ(asked.threat_model.epsilon, 0.2);
}

// One step without gradients moves what decays, and nothing else.
TEST_F(Build, TheOptimizerSparesWhatNoDecayNames) {
  const std::string data =
      "data: {channels: 3, image_size: 8, classes: 10}\nmodel: {architecture: wide_cnn}\n";
  for (const char* name : {"sgd", "adamw"}) {
    for (const char* no_decay : {"[]", "[norm]", "[bias]", "[norm, bias]"}) {
      const Config config = load(concat(data, "optimizer: {name: ", name, ", weight_decay: 0.5, ",
                                        "no_decay: ", no_decay, "}\n"))
                                .config;
      const auto model = build_architecture(config, Catalogs());
      const auto optimizer = build_optimizer(config, *model);
      std::map<std::string, at::Tensor> before;
      const at::NoGradGuard no_grad;
      for (const auto& item : model->named_parameters()) {
        item.value().fill_(1);
        item.value().mutable_grad() = at::zeros_like(item.value());
        before[item.key()] = item.value().detach().clone();
      }
      optimizer->step(0.1, at::zeros({}));
      for (const auto& item : model->named_parameters()) {
        const bool of_norm = std::ranges::any_of(model->batch_norms(), [&](const BatchNorm* norm) {
          return norm->weight.is_same(item.value()) || norm->bias.is_same(item.value());
        });
        const std::string list = no_decay;
        const bool spared =
            (of_norm && list.find("norm") != std::string::npos) ||
            (item.key().ends_with("bias") && list.find("bias") != std::string::npos);
        EXPECT_EQ(at::equal(item.value(), before[item.key()]), spared)
            << name << ' ' << no_decay << ' ' << item.key();
      }
    }
  }
}

TEST_F(Build, TheOptimizerGetsItsMomentum) {
  const auto moved = [&](const std::string& keys) {
    const Config config = load(
                              "data: {channels: 3, image_size: 8, classes: 10}\n"
                              "model: {architecture: wide_cnn}\n"
                              "optimizer: {weight_decay: 0, " +
                              keys + "}\n")
                              .config;
    const auto model = build_architecture(config, Catalogs());
    const auto optimizer = build_optimizer(config, *model);
    const at::NoGradGuard no_grad;
    at::Tensor weight = model->parameters()[0];
    weight.fill_(0);
    for (at::Tensor& parameter : model->parameters()) {
      parameter.mutable_grad() = at::ones_like(parameter);
    }
    optimizer->step(1, at::zeros({}));
    optimizer->step(1, at::zeros({}));
    return -weight.flatten()[0].item<double>();
  };
  EXPECT_DOUBLE_EQ(moved("momentum: 0"), 2);
  EXPECT_DOUBLE_EQ(moved("momentum: 0.5"), 2.5);
  EXPECT_DOUBLE_EQ(moved("momentum: 0.5, nesterov: true"), 1.5 + 1.75);
}

}  // namespace
}  // namespace temper
