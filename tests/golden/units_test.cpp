// Values of single losses and projections from the official Python code.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/reference_nets.h"
#include "temper/attacks/apgd.h"
#include "temper/attacks/threat_model.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/file.h"
#include "temper/core/text.h"
#include "temper/methods/robust_loss.h"
#include "temper/models/model_state.h"

namespace temper::testing_support {
namespace {

class UnitValues : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path path = folder() / "a_units.pt";
    if (std::getenv("TEMPER_REFERENCE_DIR") != nullptr && !std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " does not exist";
    }
    units_ = read_pytorch_file(path).as_dict();
  }
  static std::filesystem::path folder() {
    const char* given = std::getenv("TEMPER_REFERENCE_DIR");
    return given != nullptr ? std::filesystem::path(given)
                            : std::filesystem::path(TEMPER_SOURCE_DIR) / "tests/golden/part_a";
  }
  [[nodiscard]] at::Tensor at(const std::string& key) const { return units_.at(key).as_tensor(); }

  // Compares a loss of the logits and its gradient with the values under `name`.
  void compare(const std::string& name,
               const std::function<at::Tensor(const at::Tensor& logits)>& loss) const {
    for (const std::string type : {"f64", "f32"}) {
      const bool wide = type == "f64";
      at::Tensor logits =
          at("loss/logits").to(wide ? at::kDouble : at::kFloat).detach().requires_grad_(true);
      const at::Tensor value = loss(logits);
      const at::Tensor gradient = torch::autograd::grad({value.sum()}, {logits}).front();
      const std::string key = concat("loss/", type, "/", name);
      const double tolerance = wide ? 1e-11 : 1e-6;
      EXPECT_EQ(difference(value.detach(), at(key), tolerance), "") << key;
      EXPECT_EQ(difference(gradient, at(key + "_grad"), tolerance), "") << key;
    }
  }
  [[nodiscard]] at::Tensor labels() const { return at("loss/y"); }

 private:
  ValueDict units_;
};

// One value a sample, by the function that sums over samples.
at::Tensor each(const at::Tensor& logits, const at::Tensor& labels, double smoothing) {
  std::vector<at::Tensor> values;
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    values.push_back(cross_entropy_sum(logits.narrow(0, i, 1), labels.narrow(0, i, 1), smoothing));
  }
  return at::stack(values);
}

TEST_F(UnitValues, CrossEntropy) {
  compare("ce", [&](const at::Tensor& logits) { return each(logits, labels(), 0); });
}

TEST_F(UnitValues, LabelSmoothing) {
  compare("ce_ls01", [&](const at::Tensor& logits) { return each(logits, labels(), 0.1); });
  compare("ce_ls01_mean", [&](const at::Tensor& logits) {
    return cross_entropy_sum(logits, labels(), 0.1) / logits.size(0);
  });
}

// The smoothed loss of each method is the same function.
TEST_F(UnitValues, LabelSmoothingOfTheLosses) {
  const at::Tensor other = at("loss/logits").to(at::kDouble).flip(0);
  compare("ce_ls01_mean", [&](const at::Tensor& logits) {
    return AdversarialLoss(0.1).compute({}, {}, logits, labels()).total / logits.size(0);
  });
  compare("ce_ls01_mean", [&](const at::Tensor& logits) {
    const at::Tensor adversarial = other.to(logits.dtype());
    return MixedLoss(0, 0.1).compute(logits, logits, adversarial, labels()).total / logits.size(0);
  });
  compare("ce_ls01_mean", [&](const at::Tensor& logits) {
    return TradesLoss(0, 0.1).compute(logits, logits, logits, labels()).total / logits.size(0);
  });
}

TEST_F(UnitValues, Projections) {
  const at::Tensor clean = at("proj/x");
  const at::Tensor moved = clean + at("proj/d");
  EXPECT_EQ(difference(project(moved, clean, {.norm = Norm::kLinf, .epsilon = 8.0 / 255}),
                       at("proj/f32/linf_point"), 1e-6),
            "");
  EXPECT_EQ(difference(project(moved, clean, {.norm = Norm::kL2, .epsilon = 1.5}),
                       at("proj/f32/l2_point"), 1e-6),
            "");
}

TEST_F(UnitValues, ProjectionOntoTheL1BallInTheBox) {
  const at::Tensor clean = at("proj/x");
  const at::Tensor perturbation = at("proj/d");
  const at::Tensor epsilon = at("proj/eps_l1");
  for (std::int64_t i = 0; i < clean.size(0); ++i) {
    const at::Tensor from = clean.narrow(0, i, 1);
    const at::Tensor moved = from + perturbation.narrow(0, i, 1);
    const at::Tensor point =
        project(moved, from, {.norm = Norm::kL1, .epsilon = epsilon[i].item<double>()});
    EXPECT_EQ(difference(point, moved + at("proj/l1_delta").narrow(0, i, 1), 1e-5), "") << i;
  }
}

// Of 40 steps: the start, the best iterate and its loss.
TEST_F(UnitValues, AutoPgd) {
  const ValueDict inputs = read_pytorch_file(folder() / "a_inputs.pt").as_dict();
  const auto net = make_reference_net("cnn");
  const ValueDict saved = read_pytorch_file(folder() / "a_state0_cnn.pt").as_dict();
  load_state_dict(*net, to_state_dict(saved), "the reference state");
  net->to(at::kDouble);
  const at::Tensor images = inputs.at("images").as_tensor()[0].to(at::kDouble);
  const at::Tensor uniform = at("apgd/rand").to(at::kDouble) * 2 - 1;
  const ThreatModel threat_model{.epsilon = 0.03};
  const at::Tensor noise =
      threat_model.epsilon * uniform / uniform.flatten(1).abs().amax(1).view({-1, 1, 1, 1});
  const at::Tensor best =
      ApgdAttack(threat_model, {.steps = 40})
          .perturb(*net, images, at("apgd/y"),
                   {.samples = at::arange(images.size(0)), .start_noise = noise});
  EXPECT_EQ(difference(best, at("apgd/ce_linf/x_best"), 1e-11), "");
  const StatisticsModeGuard mode(*net, StatisticsMode::kRunning);
  const at::Tensor losses =
      at::cross_entropy_loss(net->forward(best), at("apgd/y"), {}, at::Reduction::None);
  EXPECT_EQ(difference(losses.detach(), at("apgd/ce_linf/loss_best"), 1e-11), "");
}

TEST_F(UnitValues, AutoPgdSchedule) {
  const auto schedule =
      nlohmann::json::parse(read_file(folder() / "a_apgd_schedule.json")).at("schedule");
  EXPECT_FALSE(schedule.empty());
  for (const auto& [steps, expected] : schedule.items()) {
    EXPECT_EQ(apgd_checkpoints(std::stoi(steps)),
              expected.at("checkpoints_after_iteration").get<std::vector<int>>())
        << steps;
  }
}

}  // namespace
}  // namespace temper::testing_support
