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

// Cross entropy whose loss or gradient is not finite in chosen updates.
class BrittleMethod final : public TrainingMethod {
 public:
  std::vector<std::uint32_t> broken_loss;
  std::vector<std::uint32_t> broken_gradient;
  int skipped = 0;

  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    const at::Tensor logits = context.model.forward(batch.images);
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
  for (const bool of_loss : {true, false}) {
    Rig rig;
    (of_loss ? rig.method.broken_loss : rig.method.broken_gradient) = {0, 1, 2};
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
