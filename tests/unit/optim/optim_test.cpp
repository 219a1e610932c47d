#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "support/compare.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"
#include "temper/optim/gradients.h"
#include "temper/optim/optimizer.h"
#include "temper/optim/schedule.h"

namespace temper {
namespace {

using testing_support::difference;

at::Tensor random_values(std::uint16_t step) {
  return normal_tensor({.seed = 8, .step = step}, at::arange(3), {4}, at::kDouble);
}

const at::Tensor kApply = at::zeros({});
const at::Tensor kSkip = at::ones({});

std::vector<NamedParameter> two_parameters() {
  return {{.name = "a", .tensor = random_values(0).clone()},
          {.name = "b", .tensor = random_values(1).clone(), .decays = false}};
}

void set_gradients(std::vector<NamedParameter>& parameters, std::uint16_t step) {
  for (NamedParameter& parameter : parameters) {
    parameter.tensor.mutable_grad() = random_values(static_cast<std::uint16_t>(10 + step)).clone();
  }
}

TEST(Sgd, FollowsPytorchsRuleWithMomentumDecayAndNesterov) {
  for (const bool nesterov : {false, true}) {
    auto parameters = two_parameters();
    const auto optimizer =
        make_sgd(parameters, {.momentum = 0.9, .weight_decay = 0.1, .nesterov = nesterov});
    std::vector<at::Tensor> expected{parameters[0].tensor.clone(), parameters[1].tensor.clone()};
    std::vector<at::Tensor> velocity{at::zeros({3, 4}, at::kDouble),
                                     at::zeros({3, 4}, at::kDouble)};
    for (std::uint16_t step = 0; step < 4; ++step) {
      set_gradients(parameters, step);
      optimizer->step(0.1, kApply);
      for (std::size_t i = 0; i < 2; ++i) {
        const at::Tensor gradient = random_values(static_cast<std::uint16_t>(10 + step)) +
                                    (i == 0 ? 0.1 : 0.0) * expected[i];
        velocity[i] = 0.9 * velocity[i] + gradient;
        expected[i] = expected[i] - 0.1 * (nesterov ? gradient + 0.9 * velocity[i] : velocity[i]);
      }
    }
    EXPECT_EQ(difference(parameters[0].tensor, expected[0], 1e-14), "");
    EXPECT_EQ(difference(parameters[1].tensor, expected[1], 1e-14), "");
  }
}

TEST(AdamW, FollowsTheDecoupledRule) {
  auto parameters = two_parameters();
  const auto optimizer = make_adamw(parameters, {.weight_decay = 0.1});
  at::Tensor expected = parameters[0].tensor.clone();
  at::Tensor first = at::zeros({3, 4}, at::kDouble);
  at::Tensor second = at::zeros({3, 4}, at::kDouble);
  for (std::uint16_t step = 0; step < 4; ++step) {
    set_gradients(parameters, step);
    optimizer->step(0.01, kApply);
    const at::Tensor gradient = random_values(static_cast<std::uint16_t>(10 + step));
    first = 0.9 * first + 0.1 * gradient;
    second = 0.999 * second + 0.001 * gradient.square();
    const double t = step + 1;
    const at::Tensor moved =
        (first / (1 - std::pow(0.9, t))) / ((second / (1 - std::pow(0.999, t))).sqrt() + 1e-8);
    expected = expected * (1 - 0.01 * 0.1) - 0.01 * moved;
  }
  EXPECT_EQ(difference(parameters[0].tensor, expected, 1e-9), "");
}

TEST(Optimizers, ASkippedStepLeavesWeightsAndState) {
  for (const bool adamw : {false, true}) {
    auto parameters = two_parameters();
    const auto optimizer = adamw ? make_adamw(parameters, {}) : make_sgd(parameters, {});
    set_gradients(parameters, 0);
    optimizer->step(0.1, kApply);
    std::vector<at::Tensor> before;
    for (const auto& [name, tensor] : optimizer->state()) {
      before.push_back(tensor.clone());
    }
    const at::Tensor weights = parameters[0].tensor.clone();
    parameters[0].tensor.mutable_grad().fill_(std::nan(""));
    optimizer->step(0.1, kSkip);
    EXPECT_TRUE(at::equal(parameters[0].tensor, weights));
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(at::equal(optimizer->state()[i].second, before[i]))
          << optimizer->state()[i].first;
    }
  }
}

TEST(Optimizers, StateGoesByName) {
  auto parameters = two_parameters();
  const auto optimizer = make_sgd(parameters, {});
  set_gradients(parameters, 0);
  optimizer->step(0.1, kApply);
  StateDict saved;
  for (const auto& [name, tensor] : optimizer->state()) {
    saved.emplace(saved.begin(), name, tensor.clone());  // in another order
  }
  auto other_parameters = two_parameters();
  const auto other = make_sgd(other_parameters, {});
  other->load_state(saved);
  EXPECT_TRUE(at::equal(other->state()[0].second, optimizer->state()[0].second));
  saved[0].first = "momentum/c";
  EXPECT_THROW(other->load_state(saved), ConfigError);
}

TEST(Gradients, ClippingScalesToTheLimit) {
  auto parameters = two_parameters();
  set_gradients(parameters, 0);
  std::vector<at::Tensor> tensors{parameters[0].tensor, parameters[1].tensor};
  const double norm = clip_gradient_norm(tensors, std::nullopt).item<double>();
  EXPECT_NEAR(norm, std::sqrt(2.0) * random_values(10).norm().item<double>(), 1e-12);
  EXPECT_NEAR(clip_gradient_norm(tensors, norm / 2).item<double>(), norm, 1e-12)
      << "the norm before clipping is reported";
  EXPECT_NEAR(clip_gradient_norm(tensors, std::nullopt).item<double>(), norm / 2, 1e-5);
  zero_gradients(tensors);
  EXPECT_EQ(tensors[0].grad().abs().sum().item<double>(), 0);
}

TEST(Schedule, FollowsItsShapes) {
  using Kind = ScheduleOptions::Kind;
  EXPECT_EQ(scheduled_learning_rate({}, 0.1, 50, 100), 0.1);
  const ScheduleOptions piecewise{.kind = Kind::kPiecewise, .milestones = {75, 90}, .factor = 0.1};
  EXPECT_EQ(scheduled_learning_rate(piecewise, 1, 74, 100), 1);
  EXPECT_NEAR(scheduled_learning_rate(piecewise, 1, 75, 100), 0.1, 1e-15);
  EXPECT_NEAR(scheduled_learning_rate(piecewise, 1, 90, 100), 0.01, 1e-15);
  const ScheduleOptions cosine{.kind = Kind::kCosine};
  EXPECT_NEAR(scheduled_learning_rate(cosine, 1, 25, 100),
              0.5 * (1 + std::cos(std::numbers::pi / 4)), 1e-15);
  const ScheduleOptions triangular{.kind = Kind::kTriangular};
  EXPECT_EQ(scheduled_learning_rate(triangular, 1, 25, 100), 0.5);
  EXPECT_EQ(scheduled_learning_rate(triangular, 1, 75, 100), 0.5);
  const ScheduleOptions warm{.kind = Kind::kConstant, .warmup = 10};
  EXPECT_EQ(scheduled_learning_rate(warm, 1, 0, 100), 0.1);
  EXPECT_EQ(scheduled_learning_rate(warm, 1, 9, 100), 1);
}

}  // namespace
}  // namespace temper
