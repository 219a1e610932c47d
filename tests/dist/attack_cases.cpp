// The attack has no side effect on any rank: acceptance case 2.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "dist/cases.h"
#include "support/reference_nets.h"
#include "support/small_training.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/core/random_tensor.h"
#include "temper/methods/catalog.h"
#include "temper/models/architectures.h"

namespace temper::testing_support {
namespace {

struct Rig {
  RankWorld& world;
  std::shared_ptr<Classifier> model = make_reference_net("cnn");
  at::Tensor images = uniform_tensor({.seed = 2}, at::arange(8), {3, 8, 8}, at::kDouble);
  at::Tensor labels = at::arange(8);
  std::unique_ptr<GradientReducer> reducer;
  std::size_t start = 0;

  explicit Rig(RankWorld& rank_world) : world(rank_world) {
    initialize(*model, 1);
    model->to(at::kDouble);
    model->synchronize_batch_norm(reduction_of(world.communicator));
    std::vector<std::pair<std::string, at::Tensor>> parameters;
    for (const auto& item : model->named_parameters()) {
      parameters.emplace_back(item.key(), item.value());
    }
    reducer = make_gradient_reducer(parameters, world.communicator, {});
    start = world.collectives.size();
  }
  // Those of the process group, so also buckets that an attack would have set off.
  std::size_t collectives() const { return world.collectives.size() - start; }
  AttackContext context(StatisticsMode mode) const {
    return {.loss = InnerLoss::kKlDivergence, .statistics = mode, .samples = at::arange(8)};
  }
};

// Throws in its second forward.
class FailingNet final : public Classifier {
 public:
  explicit FailingNet(std::shared_ptr<Classifier> inner)
      : Classifier({}), inner_(register_module("inner", std::move(inner))) {}

 private:
  at::Tensor logits(const at::Tensor& images) override {
    if (++calls_ > 1) {
      throw std::runtime_error("out of memory");
    }
    return inner_->forward(images);
  }
  std::shared_ptr<Classifier> inner_;
  int calls_ = 0;
};

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [name, tensor] : state) {
    copy.emplace_back(name, tensor.detach().clone());
  }
  return copy;
}

void require_untouched(Rig& rig, const StateDict& before) {
  require_equal_states(state_dict(*rig.model), before, 0);
  for (const auto& item : rig.model->named_parameters()) {
    require(!item.value().grad().defined(), item.key(), " got a gradient");
    require(item.value().requires_grad() == (item.key() != "fc.bias"), item.key(),
            " has another flag");
  }
  require(rig.model->batch_norms()[0]->mode() == StatisticsMode::kUpdate,
          "the first layer's mode changed");
  require(rig.model->batch_norms()[1]->mode() == StatisticsMode::kBatch,
          "the second layer's mode changed");
}

// The attack of each method: of trades, and of mixed and pgd_at, with all that an attack can do.
void attack_leaves_no_trace(RankWorld& world, InnerLoss loss) {
  Rig rig(world);
  rig.model->batch_norms()[1]->set_mode(StatisticsMode::kBatch);  // a mixed tree
  rig.model->named_parameters()["fc.bias"].set_requires_grad(false);
  const StateDict before = copy_of(state_dict(*rig.model));
  const bool may_aim = loss == InnerLoss::kCrossEntropy;
  const PgdAttack attack({.epsilon = 0.05},
                         {.steps = 10,
                          .step_size = 0.01,
                          .restarts = 2,
                          .keep_best = true,
                          .target = may_aim ? AttackTarget::kLeastLikely : AttackTarget::kNone});
  AttackContext context = rig.context(StatisticsMode::kRunning);
  context.loss = loss;
  for (const bool recording : {true, false}) {
    const at::AutoGradMode mode(recording);
    const at::Tensor adversarial = attack.perturb(*rig.model, rig.images, rig.labels, context);
    require(!adversarial.requires_grad(), "the adversarial images are attached to a graph");
    require(rig.collectives() == 0, "the attack issued ", rig.collectives(), " collectives");
    require_untouched(rig, before);
  }
  FailingNet failing(rig.model);
  bool thrown = false;
  try {
    static_cast<void>(attack.perturb(failing, rig.images, rig.labels, context));
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  require(thrown, "the failing net did not fail");
  require_untouched(rig, before);
}

// Lower precision on the CPU for a scope, as PyTorch's torch.autocast("cpu", torch.bfloat16).
class AutocastScope {
 public:
  AutocastScope() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    at::autocast::decrement_nesting();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
};

// A forward without gradients fills autocast's cache of weights; the outer forwards must not use
// copies that lead nowhere.
void every_parameter_gets_a_gradient_under_autocast(RankWorld& world) {
  for (const std::string name : {"trades", "mixed", "pgd_at"}) {
    Rig rig(world);
    rig.model->synchronize_batch_norm(nullptr);
    rig.model->to(at::kFloat);
    const auto attack = std::make_shared<PgdAttack>(ThreatModel{.epsilon = 0.05},
                                                    PgdOptions{.steps = 2, .step_size = 0.02});
    const auto method = built_in_methods().make(name, attack, {});
    const AutocastScope autocast;
    {
      const at::NoGradGuard no_grad;
      static_cast<void>(rig.model->forward(rig.images.to(at::kFloat)));
    }
    StepContext context{.model = *rig.model,
                        .backward = [](const at::Tensor& loss) { loss.backward(); }};
    static_cast<void>(method->compute_gradients(
        context, {rig.images.to(at::kFloat), rig.labels, at::arange(rig.labels.numel())}));
    for (const auto& item : rig.model->named_parameters()) {
      require(item.value().grad().defined() && item.value().grad().abs().sum().item<double>() > 0,
              name, ": ", item.key(), " got no gradient");
    }
  }
}

void synchronized_attack_has_a_fixed_number_of_collectives(RankWorld& world) {
  Rig rig(world);
  const std::size_t steps = 3;
  const PgdAttack attack({.epsilon = 0.05}, {.steps = static_cast<int>(steps), .step_size = 0.01});
  static_cast<void>(
      attack.perturb(*rig.model, rig.images, rig.labels, rig.context(StatisticsMode::kBatch)));
  // Two layers: one collective a forward of the clean images, two a step (forward and backward).
  require(rig.collectives() == 2 * (1 + 2 * steps), "the attack issued ", rig.collectives(),
          " collectives");
}

// Python's DDP fails here: the buffers it broadcasts between forwards are part of the first graph.
void two_forwards_one_backward(RankWorld& world) {
  for (const bool synchronized : {true, false}) {
    Rig rig(world);
    if (!synchronized) {
      rig.model->synchronize_batch_norm(nullptr);
    }
    PendingStatistics statistics(*rig.model);
    for (int update = 0; update < 3; ++update) {
      const at::Tensor loss = rig.model->forward(rig.images).pow(2).sum() +
                              rig.model->forward(rig.images.flip(0)).pow(2).sum();
      rig.reducer->backward(loss);
      statistics.commit(at::ones({}, at::kBool));
    }
    at::Tensor gradient = rig.model->parameters()[0].grad().clone();
    world.communicator.broadcast(gradient, 0);
    require(at::equal(gradient, rig.model->parameters()[0].grad()),
            "gradients differ between ranks");
  }
}

class AttackSideEffects : public testing::TestWithParam<int> {};

TEST_P(AttackSideEffects, NoneWithTheDivergence) {
  expect_ranks_pass("attack_trace_divergence", GetParam());
}
TEST_P(AttackSideEffects, NoneWithTheCrossEntropy) {
  expect_ranks_pass("attack_trace_cross_entropy", GetParam());
}
TEST_P(AttackSideEffects, EveryParameterGetsAGradientUnderAutocast) {
  expect_ranks_pass("attack_autocast", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, AttackSideEffects, testing::Values(1, 2, 3));

TEST(Attack, WithBatchStatisticsHasAFixedNumberOfCollectives) {
  expect_ranks_pass("attack_collectives", 2);
}
TEST(BatchNorm, TwoForwardsAndOneBackwardAreSafe) { expect_ranks_pass("two_forwards", 2); }

}  // namespace

void add_attack_cases(RankCases& cases) {
  cases["attack_trace_divergence"] = [](RankWorld& world) {
    attack_leaves_no_trace(world, InnerLoss::kKlDivergence);
  };
  cases["attack_trace_cross_entropy"] = [](RankWorld& world) {
    attack_leaves_no_trace(world, InnerLoss::kCrossEntropy);
  };
  cases["attack_autocast"] = every_parameter_gets_a_gradient_under_autocast;
  cases["attack_collectives"] = synchronized_attack_has_a_fixed_number_of_collectives;
  cases["two_forwards"] = two_forwards_one_backward;
}

}  // namespace temper::testing_support
