// The loop's decisions on one rank: skipping, stopping, saving.

#include "temper/train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/reference_nets.h"
#include "support/scratch_folder.h"
#include "support/small_training.h"
#include "temper/models/architectures.h"

namespace temper {
namespace {

using testing_support::RandomDataset;

// Cross entropy whose loss, gradient or statistics are not finite in chosen updates.
class BrittleMethod final : public TrainingMethod {
 public:
  std::vector<std::uint32_t> broken_loss;
  std::vector<std::uint32_t> broken_gradient;
  std::vector<std::uint32_t> broken_statistics;
  int skipped = 0;

  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    // Its variance overflows; what is normalised by it is zero.
    const double scale = std::ranges::count(broken_statistics, context.update) > 0 ? 1e200 : 1;
    const at::Tensor logits = context.model.forward(batch.images * scale);
    at::Tensor loss = at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum);
    if (std::ranges::count(broken_loss, context.update) > 0) {
      loss = loss * std::nan("");
    }
    context.backward(loss);
    if (std::ranges::count(broken_gradient, context.update) > 0) {
      context.model.parameters()[0].mutable_grad().fill_(INFINITY);
    }
    const at::Tensor zero = at::zeros({}, at::kDouble);
    return {.loss = loss.detach(),
            .clean_loss = zero,
            .robust_loss = zero,
            .clean_correct = zero,
            .adversarial_correct = zero};
  }
};

class RecordingSink final : public Sink {
 public:
  void write(const TrainRecord& record) override { train.push_back(record); }
  void write(const ValidationRecord& record) override { validation.push_back(record); }
  void write(const Event& event) override { events.push_back(event.what); }
  std::vector<TrainRecord> train;
  std::vector<ValidationRecord> validation;
  std::vector<std::string> events;
};

struct Rig {
  std::shared_ptr<Classifier> model = testing_support::make_reference_net("cnn");
  std::unique_ptr<Communicator> communicator = make_communicator(nullptr, {});
  RandomDataset data{20};
  ShardedSampler sampler{{.dataset_size = 20, .global_batch_size = 4, .seed = 1}};
  Loader loader{data, Transform(), {.seed = 1, .image_size = 8}};
  BrittleMethod method;
  RecordingSink sink;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<GradientReducer> reducer;
  TrainerOptions options;
  std::function<StopReason()> stop;
  std::function<EvaluationResult()> validate;
  std::function<EvaluationResult()> check_overfitting;
  const CheckpointDirectory* checkpoints = nullptr;

  Rig() {
    initialize(*model, 1);
    model->to(at::kDouble);
    std::vector<NamedParameter> named;
    for (const auto& item : model->named_parameters()) {
      named.push_back({.name = item.key(), .tensor = item.value()});
    }
    optimizer = make_sgd(named, {});
    reducer = make_gradient_reducer({}, *communicator, {});
    options.shape = {.epochs = 2, .updates_per_epoch = 5, .samples_per_epoch = 20};
    options.learning_rate = 0.01;
    options.placement.dtype = at::kDouble;
    options.log_every = {1, Period::Unit::kUpdates};
  }

  TrainerParts parts() {
    return {.model = *model,
            .method = method,
            .optimizer = *optimizer,
            .reducer = *reducer,
            .communicator = *communicator,
            .sampler = sampler,
            .loader = loader,
            .sink = sink,
            .checkpoints = checkpoints,
            .validate = validate,
            .check_overfitting = check_overfitting,
            .stop_requested = stop};
  }
  std::vector<at::Tensor> copy_state() {
    std::vector<at::Tensor> out;
    for (const auto& [name, tensor] : state_dict(*model)) {
      out.push_back(tensor.detach().clone());
    }
    return out;
  }
};

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i], b[i])) << i;
  }
}

TEST(Trainer, ASkippedUpdateLeavesWeightsBuffersAndMomentum) {
  for (const auto broken : {&BrittleMethod::broken_loss, &BrittleMethod::broken_gradient,
                            &BrittleMethod::broken_statistics}) {
    Rig rig;
    rig.method.*broken = {0, 1, 2};
    rig.options.shape.max_updates = 3;
    const auto before = rig.copy_state();
    Trainer trainer(rig.parts(), rig.options);
    EXPECT_EQ(trainer.run(), StopReason::kFinished);
    expect_same(rig.copy_state(), before);
    for (const auto& [name, tensor] : rig.optimizer->state()) {
      EXPECT_EQ(tensor.abs().sum().item<double>(), 0) << name;
    }
    EXPECT_EQ(std::ranges::count(rig.sink.events, "skipped_update"), 3);
    EXPECT_EQ(trainer.progress().update, 3);
  }
}

TEST(Trainer, AbortsAfterTooManySkippedUpdatesInARow) {
  Rig rig;
  rig.method.broken_loss = {1, 3, 4, 5, 6};
  rig.options.max_skipped = 2;
  Trainer trainer(rig.parts(), rig.options);
  EXPECT_THROW(static_cast<void>(trainer.run()), std::runtime_error);
  EXPECT_EQ(trainer.progress().update, 6) << "a good update in between starts the count again";
}

TEST(Trainer, AbortsAtOnceWhenAsked) {
  Rig rig;
  rig.method.broken_loss = {2};
  rig.options.abort_on_nonfinite = true;
  Trainer trainer(rig.parts(), rig.options);
  EXPECT_THROW(static_cast<void>(trainer.run()), std::runtime_error);
}

// A request that arrives in an update discards it; the resumed run repeats it and ends with the
// same bits.
TEST(Trainer, AStoppedAndResumedRunEndsWithTheSameBits) {
  Rig whole;
  static_cast<void>(Trainer(whole.parts(), whole.options).run());

  const ScratchFolder folder;
  const CheckpointDirectory checkpoints(folder.path(), 2);
  Rig stopped;
  stopped.checkpoints = &checkpoints;
  int calls = 0;
  stopped.stop = [&] { return ++calls > 7 ? StopReason::kCheckpoint : StopReason::kFinished; };
  Trainer first(stopped.parts(), stopped.options);
  EXPECT_EQ(first.run(), StopReason::kCheckpoint);
  EXPECT_GT(first.progress().update, 0);
  EXPECT_LT(first.progress().update, 10);

  Rig resumed;
  Trainer second(resumed.parts(), resumed.options);
  second.restore(*checkpoints.newest_valid().checkpoint);
  EXPECT_EQ(second.progress().update, first.progress().update);
  EXPECT_EQ(second.run(), StopReason::kFinished);
  expect_same(resumed.copy_state(), whole.copy_state());
}

TEST(Trainer, ValidatesAndKeepsTheBestCheckpoint) {
  const ScratchFolder folder;
  const CheckpointDirectory checkpoints(folder.path(), 1);
  Rig rig;
  rig.checkpoints = &checkpoints;
  rig.options.validate_every = {2, Period::Unit::kUpdates};
  const std::vector<std::int64_t> counts{3, 5, 4, 5, 2};
  std::size_t calls = 0;
  rig.validate = [&] {
    EvaluationResult result;
    result.samples = 10;
    result.clean_correct = counts.at(calls++);
    return result;
  };
  EXPECT_EQ(Trainer(rig.parts(), rig.options).run(), StopReason::kFinished);
  EXPECT_EQ(rig.sink.validation.size(), 5U);
  const NewestCheckpoint last = checkpoints.newest_valid();
  EXPECT_EQ(last.checkpoint->as_dict().at("progress").as_dict().at("best_metric").as_double(), 0.5);
  EXPECT_TRUE(std::filesystem::exists(checkpoints.best()));
  EXPECT_FALSE(std::filesystem::exists(checkpoints.epoch(1))) << "one epoch file is kept";
  EXPECT_TRUE(std::filesystem::exists(checkpoints.epoch(2)));
}

// Validation results, one after the other.
std::function<EvaluationResult()> results_of(std::vector<std::int64_t> correct,
                                             std::size_t& calls) {
  return [correct = std::move(correct), &calls] {
    EvaluationResult result;
    result.samples = 10;
    result.clean_correct = correct.at(calls);
    result.attacks.push_back({.robust_correct = correct.at(calls)});
    ++calls;
    return result;
  };
}

TEST(Trainer, TheBestCheckpointFollowsTheChosenMetric) {
  using Kind = BestMetric::Kind;
  const std::vector<std::pair<Kind, double>> best{
      {Kind::kRobustAccuracy, 0.2}, {Kind::kCleanAccuracy, 0.5}, {Kind::kCleanTop5Accuracy, 0.8}};
  for (const auto& [kind, metric] : best) {
    Rig rig;
    rig.options.validate_every = {2, Period::Unit::kUpdates};
    rig.options.best.kind = kind;
    rig.validate = [] {
      EvaluationResult result;
      result.samples = 10;
      result.clean_correct = 5;
      result.top5_correct = 8;
      result.attacks.push_back({.robust_correct = 2});
      return result;
    };
    Trainer trainer(rig.parts(), rig.options);
    EXPECT_EQ(trainer.run(), StopReason::kFinished);
    EXPECT_EQ(trainer.progress().best_metric, metric);
  }
}

TEST(Trainer, EndsEarlyWhenNoValidationIsBetter) {
  const ScratchFolder folder;
  const CheckpointDirectory checkpoints(folder.path(), 1);
  Rig rig;
  rig.checkpoints = &checkpoints;
  rig.options.validate_every = {1, Period::Unit::kUpdates};
  rig.options.patience = 3;
  std::size_t calls = 0;
  rig.validate = results_of({3, 5, 4, 6, 6, 5, 2, 9, 9, 9}, calls);
  Trainer trainer(rig.parts(), rig.options);
  EXPECT_EQ(trainer.run(), StopReason::kFinished);
  EXPECT_EQ(trainer.progress().update, 7);
  EXPECT_EQ(std::ranges::count(rig.sink.events, "early_stop"), 1);
  EXPECT_EQ(rig.sink.events.back(), "finished");

  // What ended stays ended.
  Rig again;
  again.options.patience = 3;
  Trainer resumed(again.parts(), again.options);
  resumed.restore(*checkpoints.newest_valid().checkpoint);
  EXPECT_EQ(resumed.run(), StopReason::kFinished);
  EXPECT_EQ(resumed.progress().update, 7);
}

// Cross entropy, with an attack that can be strengthened.
class StrengthenedMethod final : public TrainingMethod {
 public:
  int strength = 1;
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    return inner_.compute_gradients(context, batch);
  }
  [[nodiscard]] bool can_strengthen_attack() const override { return strength < 4; }
  int strengthen_attack() override { return strength *= 2; }
  [[nodiscard]] StateDict state(const RankReduction&) const override {
    return {{"strength", at::tensor(strength, at::kLong)}};
  }
  void load_state(const StateDict& state) override { strength = state.front().second.item<int>(); }

 private:
  BrittleMethod inner_;
};

struct OverfittingRig : Rig {
  StrengthenedMethod strengthened;
  std::size_t calls = 0;

  explicit OverfittingRig(std::vector<std::int64_t> correct, bool roll_back) {
    options.overfitting_check = OverfittingCheck{
        .every = {2, Period::Unit::kUpdates}, .fall = 0.25, .roll_back = roll_back};
    check_overfitting = results_of(std::move(correct), calls);
  }
  TrainerParts strengthened_parts() {
    const TrainerParts plain = parts();
    return {.model = plain.model,
            .method = strengthened,
            .optimizer = plain.optimizer,
            .reducer = plain.reducer,
            .communicator = plain.communicator,
            .sampler = plain.sampler,
            .loader = plain.loader,
            .sink = plain.sink,
            .checkpoints = plain.checkpoints,
            .check_overfitting = plain.check_overfitting,
            .stop_requested = plain.stop_requested};
  }
};

TEST(Overfitting, IsWarnedOfOnAFallAlone) {
  OverfittingRig rig({5, 3, 6, 3, 2}, /*roll_back=*/false);
  static_cast<void>(Trainer(rig.strengthened_parts(), rig.options).run());
  EXPECT_EQ(rig.calls, 5U);
  EXPECT_EQ(std::ranges::count(rig.sink.events, "overfitting_check"), 5);
  EXPECT_EQ(std::ranges::count(rig.sink.events, "warning"), 1) << "from 6 to 3 of 10";
  EXPECT_EQ(rig.strengthened.strength, 1);
}

// At update 4 the state of update 2 comes back, and again at update 6: the attack is strengthened
// twice.
TEST(Overfitting, RollsBackToTheLastGoodCheckAndStrengthensTheAttack) {
  OverfittingRig rig({9, 2, 2, 8, 8}, /*roll_back=*/true);
  std::vector<std::vector<at::Tensor>> states;
  rig.check_overfitting = [&, results = rig.check_overfitting] {
    states.push_back(rig.copy_state());
    return results();
  };
  rig.options.shape.max_updates = 4;
  static_cast<void>(Trainer(rig.strengthened_parts(), rig.options).run());
  expect_same(rig.copy_state(), states[0]);
  EXPECT_FALSE(at::equal(states[1][0], states[0][0]));
  EXPECT_EQ(rig.strengthened.strength, 2);
  EXPECT_EQ(std::ranges::count(rig.sink.events, "rolled_back"), 1);

  OverfittingRig longer({9, 2, 2, 8, 8}, /*roll_back=*/true);
  static_cast<void>(Trainer(longer.strengthened_parts(), longer.options).run());
  EXPECT_EQ(longer.strengthened.strength, 4);
  EXPECT_EQ(std::ranges::count(longer.sink.events, "rolled_back"), 2);
}

TEST(Overfitting, GoesOnWhenTheAttackCannotBeStrengthenedAnyFurther) {
  OverfittingRig rig({9, 2, 2, 2, 2}, /*roll_back=*/true);
  static_cast<void>(Trainer(rig.strengthened_parts(), rig.options).run());
  EXPECT_EQ(rig.strengthened.strength, 4);
  EXPECT_EQ(std::ranges::count(rig.sink.events, "rolled_back"), 2);
  EXPECT_EQ(std::ranges::count(rig.sink.events, "warning"), 3) << "the last 2 is no fall any more";
}

// The first alarm has no state to go back to; the second one has.
TEST(Overfitting, TheActionMayBecomeRollBackInAResumedRun) {
  const ScratchFolder folder;
  const CheckpointDirectory checkpoints(folder.path(), 2);
  OverfittingRig first({9, 9, 9, 9, 9}, /*roll_back=*/false);
  first.checkpoints = &checkpoints;
  first.options.shape.max_updates = 3;
  static_cast<void>(Trainer(first.strengthened_parts(), first.options).run());

  OverfittingRig second({6, 2, 2, 2}, /*roll_back=*/true);
  Trainer trainer(second.strengthened_parts(), second.options);
  trainer.restore(*checkpoints.newest_valid().checkpoint);
  static_cast<void>(trainer.run());
  EXPECT_EQ(std::ranges::count(second.sink.events, "warning"), 4);
  EXPECT_EQ(std::ranges::count(second.sink.events, "rolled_back"), 2);
}

// A run that only warns keeps no state, and saves none of an earlier time.
TEST(Overfitting, AResumeWithoutTheActionForgetsTheState) {
  const ScratchFolder folder;
  const CheckpointDirectory checkpoints(folder.path(), 2);
  for (const auto& [roll_back, last] : {std::pair{true, 3}, {false, 6}}) {
    OverfittingRig rig({9, 9, 9}, roll_back);
    rig.checkpoints = &checkpoints;
    rig.options.shape.max_updates = last;
    Trainer trainer(rig.strengthened_parts(), rig.options);
    if (!roll_back) {
      trainer.restore(*checkpoints.newest_valid().checkpoint);
    }
    static_cast<void>(trainer.run());
    EXPECT_EQ(checkpoints.newest_valid().checkpoint->as_dict().contains("roll_back_to"), roll_back);
  }
}

// The state to go back to is part of a checkpoint.
TEST(Overfitting, AResumedRunRollsBackToTheSameState) {
  const std::vector<std::int64_t> results{9, 2, 8, 8, 8};
  OverfittingRig whole(results, /*roll_back=*/true);
  static_cast<void>(Trainer(whole.strengthened_parts(), whole.options).run());

  const ScratchFolder folder;
  const CheckpointDirectory checkpoints(folder.path(), 2);
  OverfittingRig first(results, /*roll_back=*/true);
  first.checkpoints = &checkpoints;
  first.options.shape.max_updates = 3;
  static_cast<void>(Trainer(first.strengthened_parts(), first.options).run());
  EXPECT_EQ(first.calls, 1U);

  OverfittingRig second({results.begin() + 1, results.end()}, /*roll_back=*/true);
  Trainer trainer(second.strengthened_parts(), second.options);
  trainer.restore(*checkpoints.newest_valid().checkpoint);
  static_cast<void>(trainer.run());
  EXPECT_EQ(second.strengthened.strength, 2);
  expect_same(second.copy_state(), whole.copy_state());
}

// Notes whether its batches are mixed.
class LookingMethod final : public TrainingMethod {
 public:
  std::vector<bool> mixed;

  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    mixed.push_back(batch.targets.defined());
    if (batch.targets.defined()) {
      EXPECT_TRUE(at::allclose(batch.targets.sum(1), at::ones({4}, batch.targets.options())));
      EXPECT_GT(batch.targets.gt(0).sum(1).max().item<std::int64_t>(), 1);
    }
    return inner_.compute_gradients(context, batch);
  }

 private:
  BrittleMethod inner_;
};

TEST(Trainer, GivesTheMethodMixedBatches) {
  for (const double mixup : {0.0, 1.0}) {
    Rig rig;
    LookingMethod method;
    TrainerParts parts = rig.parts();
    rig.options.mixing = {.mixup = mixup, .classes = 10};
    static_cast<void>(Trainer({.model = parts.model,
                               .method = method,
                               .optimizer = parts.optimizer,
                               .reducer = parts.reducer,
                               .communicator = parts.communicator,
                               .sampler = parts.sampler,
                               .loader = parts.loader,
                               .sink = parts.sink},
                              rig.options)
                          .run());
    EXPECT_EQ(method.mixed, std::vector<bool>(10, mixup > 0));
  }
}

TEST(Trainer, EachEpochSaysHowItWasLoaded) {
  Rig rig;
  static_cast<void>(Trainer(rig.parts(), rig.options).run());
  EXPECT_EQ(std::ranges::count(rig.sink.events, "epoch_loaded"), 2);
}

TEST(Trainer, RecordsCountSamplesAndUpdates) {
  Rig rig;
  static_cast<void>(Trainer(rig.parts(), rig.options).run());
  ASSERT_EQ(rig.sink.train.size(), 10U);
  EXPECT_EQ(rig.sink.train[5].update, 6);
  EXPECT_EQ(rig.sink.train[5].samples, 24);
  EXPECT_EQ(rig.sink.train[5].epoch, 2);
  EXPECT_EQ(rig.sink.events.front(), "started");
  EXPECT_EQ(rig.sink.events.back(), "finished");
}

}  // namespace
}  // namespace temper
