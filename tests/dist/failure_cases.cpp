// What goes wrong on one rank alone becomes one decision of all, at the same update (acceptance
// case 5).

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <latch>
#include <limits>

#include "dist/agreement_cases.h"
#include "support/reference_nets.h"
#include "support/small_training.h"
#include "temper/core/error.h"
#include "temper/dist/rank_failure.h"

namespace temper::testing_support {
namespace {

constexpr int kFailingRank = 1;
constexpr std::uint32_t kFailingUpdate = 2;

// A data set in which one sample, or every sample, cannot be had.
class BrittleDataset final : public Dataset {
 public:
  static constexpr std::size_t kEverySample = std::numeric_limits<std::size_t>::max();
  BrittleDataset(std::shared_ptr<const Dataset> inner, std::size_t sample,
                 std::function<void()> fail)
      : inner_(std::move(inner)), sample_(sample), fail_(std::move(fail)) {}
  [[nodiscard]] std::span<const std::int64_t> labels() const override { return inner_->labels(); }
  [[nodiscard]] std::span<const std::string> class_names() const override {
    return inner_->class_names();
  }
  [[nodiscard]] int channels() const override { return inner_->channels(); }
  [[nodiscard]] ElementType element_type() const override { return inner_->element_type(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return inner_->fingerprint(); }
  [[nodiscard]] std::string sample_name(std::size_t index) const override {
    return inner_->sample_name(index);
  }
  [[nodiscard]] SampleInfo describe(std::size_t index) const override {
    return inner_->describe(index);
  }
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override {
    if (index == sample_ || sample_ == kEverySample) {
      fail_();
    }
    return inner_->read(index, buffer);
  }

 private:
  std::shared_ptr<const Dataset> inner_;
  std::size_t sample_;
  std::function<void()> fail_;
};

// Calls a function in front of the real method, at one update of one rank.
class BrittleMethod final : public TrainingMethod {
 public:
  using Break = std::function<void(StepContext&)>;
  BrittleMethod(std::shared_ptr<TrainingMethod> inner, bool here, Break break_it)
      : inner_(std::move(inner)), here_(here), break_(std::move(break_it)) {}
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    const bool now = here_ && context.update == kFailingUpdate && batch.labels.numel() > 0;
    if (now) {
      break_(context);
    }
    StepOutput output = inner_->compute_gradients(context, batch);
    if (now && spoils_loss_) {
      output.loss = output.loss * std::nan("");
    }
    return output;
  }
  void after_update(Classifier& model, const at::Tensor& skip) override {
    inner_->after_update(model, skip);
  }
  void spoil_loss() { spoils_loss_ = true; }

 private:
  std::shared_ptr<TrainingMethod> inner_;
  bool here_;
  Break break_;
  bool spoils_loss_ = false;
};

auto broken(RankWorld& world, BrittleMethod::Break break_it) {
  return [&world, break_it](std::shared_ptr<TrainingMethod> inner) {
    return std::make_shared<BrittleMethod>(std::move(inner), world.rank == kFailingRank, break_it);
  };
}

// One throws when the gradient of the first parameter is there, so late in the backward pass.
void throw_in_backward(StepContext& context) {
  const auto thrown = std::make_shared<bool>(false);
  context.model.parameters()[0].register_hook([thrown](const at::Tensor& gradient) {
    if (!std::exchange(*thrown, true)) {
      throw std::bad_alloc();
    }
    return gradient;
  });
}

void require_same_text(RankWorld& world, const std::string& text) {
  require(broadcast_text(world.communicator, text) == text, "not the text of rank 0: ", text);
}

// Trains and expects the failure of rank 1 on all ranks, at its update.
void require_agreed(RankWorld& world, const SmallTraining& options, const std::string& phase,
                    const std::string& reason) {
  try {
    static_cast<void>(run_small_training(world.communicator, options));
  } catch (const RankFailureError& error) {
    const std::string text = error.what();
    require(text.starts_with(concat("update ", kFailingUpdate + 1, ": rank 1 on host ")), text);
    require(text.find(concat(" failed in phase ", phase, ": ", reason)) != std::string::npos, text);
    require(error.rank() == kFailingRank, "rank ", error.rank());
    require((error.cause() != nullptr) == (world.rank == kFailingRank), "a cause on another rank");
    require_same_text(world, text);
    return;
  }
  throw std::logic_error("nothing was thrown");
}

// A sample that rank 1 trains on in the failing update.
std::size_t sample_of_rank_1(RankWorld& world, const SmallTraining& options) {
  ShardedSampler sampler({.dataset_size = options.samples,
                          .global_batch_size = options.global_batch,
                          .accumulation = options.accumulation,
                          .rank = kFailingRank,
                          .world_size = world.world_size,
                          .seed = options.seed});
  const auto batches = sampler.global_batch(0, kFailingUpdate).micro_batches;
  return batches.back().samples.back();
}

void bad_samples(RankWorld& world) {
  const std::vector<std::pair<std::function<void()>, std::string>> failures{
      {[] { throw DataError("17.png: not a PNG file"); }, "17.png: not a PNG file"},
      {[] { throw SystemError("cannot read 17.png", EIO); }, "cannot read 17.png: Input/output"},
      {[] { throw std::bad_alloc(); }, "out of memory (std::bad_alloc); lower"},
      {[] { throw std::runtime_error("odd\nmore"); }, "odd; all ranks stop"}};
  for (std::size_t i = 0; i < failures.size(); ++i) {
    SmallTraining options{.method = i == 0 ? "trades" : "pgd_at",
                          .synchronized_batch_norm = i % 2 == 0,
                          .overlap = i != 3,
                          .samples = 40,
                          .global_batch = 8,
                          .accumulation = i == 1 ? std::uint64_t{1} : 2,
                          .epochs = 1};
    options.wrap_dataset = [&](std::shared_ptr<const Dataset> inner) {
      const std::size_t sample =
          world.rank == kFailingRank ? sample_of_rank_1(world, options) : options.samples;
      return std::make_shared<const BrittleDataset>(std::move(inner), sample, failures[i].first);
    };
    require_agreed(world, options, "data", failures[i].second);
  }
}

// Before the first collective of the micro-batch: in the attack, the forward and the backward pass.
void errors_before_a_collective(RankWorld& world) {
  const SmallTraining options{.method = "pgd_at",
                              .synchronized_batch_norm = false,
                              .samples = 40,
                              .global_batch = 8,
                              .epochs = 1};
  for (const bool overlap : {true, false}) {
    SmallTraining own = options;
    own.overlap = overlap;
    own.wrap_method = broken(world, [](StepContext& context) {
      context.enter_phase("attack");
      TORCH_CHECK(false,
                  "DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes");
    });
    require_agreed(world, own, "attack", "DefaultCPUAllocator: can't allocate memory");
    own.wrap_method = broken(world, throw_in_backward);
    require_agreed(world, own, "forward_backward", "out of memory");
  }
}

// In the middle of the collectives nobody can go on: the rank fails by itself, in bounded time the
// others notice.
void errors_between_collectives(RankWorld& world) {
  SmallTraining options{.method = "pgd_at", .samples = 40, .global_batch = 8, .epochs = 1};
  options.wrap_method = broken(world, throw_in_backward);
  try {
    static_cast<void>(run_small_training(world.communicator, options));
  } catch (const std::bad_alloc&) {
    require(world.rank == kFailingRank, "another rank's exception");
    return;  // its process ends, and its connections with it
  } catch (const LostPeerError&) {
    require(world.rank != kFailingRank, "the failing rank lost another one");
    return;
  }
  throw std::logic_error("nothing was thrown");
}

// The loss of rank 1 is NaN, or a gradient of it is infinite.
void nonfinite_on_one_rank(RankWorld& world) {
  const BrittleMethod::Break infinite_gradient = [](StepContext& context) {
    const auto done = std::make_shared<bool>(false);
    context.model.parameters()[0].register_hook([done](const at::Tensor& gradient) {
      return std::exchange(*done, true) ? gradient : gradient * INFINITY;
    });
  };
  for (const bool of_loss : {true, false}) {
    for (const bool synchronized : {true, false}) {
      SmallTraining options{.method = "pgd_at",
                            .synchronized_batch_norm = synchronized,
                            .samples = 40,
                            .global_batch = 8,
                            .epochs = 1,
                            .compare_replicas_every = {1, Period::Unit::kUpdates}};
      options.wrap_method = [&](std::shared_ptr<TrainingMethod> inner) {
        auto method = std::make_shared<BrittleMethod>(
            std::move(inner), world.rank == kFailingRank,
            of_loss ? BrittleMethod::Break([](StepContext&) {}) : infinite_gradient);
        if (of_loss) {
          method->spoil_loss();
        }
        return method;
      };
      const std::string reason = of_loss ? "the loss is not finite" : "the gradient is not finite";
      // The comparison of the replicas after each update throws when one differs.
      const TrainingResult skipped = run_small_training(world.communicator, options);
      require(skipped.updates == 5, skipped.updates, " updates");
      std::vector<Event> events;
      for (const Event& event : skipped.events) {
        if (event.what == "skipped_update") {
          events.push_back(event);
        }
      }
      require(events.size() == 1 && events[0].update == kFailingUpdate + 1, events.size(),
              " skipped updates");
      for (const auto& [name, tensor] : skipped.state) {
        require(tensor.isfinite().all().item<bool>(), name, " is not finite");
        at::Tensor of_main_rank = tensor.contiguous().clone();
        world.communicator.broadcast(of_main_rank, 0);
        require(at::equal(of_main_rank, tensor), name, " differs from rank 0");
      }
      options.abort_on_nonfinite = true;
      std::string text;
      try {
        static_cast<void>(run_small_training(world.communicator, options));
      } catch (const AgreedError& error) {
        text = error.what();
      }
      require(text.starts_with(concat("update ", kFailingUpdate + 1, ": ", reason)), "'", text,
              "'");
      require_same_text(world, text);
    }
  }
}

void bad_validation_sample(RankWorld& world) {
  const auto inner = std::make_shared<const RandomDataset>(20);
  const bool fails = world.rank == kFailingRank;
  const BrittleDataset data(inner, fails ? BrittleDataset::kEverySample : inner->size(),
                            [] { throw DataError("1.png: cut off"); });
  Loader loader(data, Transform(), {.image_size = 8});
  const auto model = make_reference_net("cnn");
  model->to(at::kDouble);
  std::string text;
  try {
    static_cast<void>(evaluate(
        *model, loader, {}, world.communicator,
        {.dataset_size = inner->size(), .batch_size = 3, .placement = {.dtype = at::kDouble}}));
  } catch (const RankFailureError& error) {
    text = error.what();
    require(error.rank() == kFailingRank, "rank ", error.rank());
  }
  require(text.find("evaluation: rank 1 on host ") == 0 &&
              text.find("1.png: cut off") != std::string::npos,
          "'", text, "'");
  require_same_text(world, text);
}

// A file that does not come keeps rank 1 waiting; a request to stop there must not wait for it.
void stop_while_waiting_for_data(RankWorld& world) {
  const bool here = world.rank == kFailingRank;
  std::atomic<bool> waits{false};
  std::latch asked_often(3);
  SmallTraining options{.method = "pgd_at", .samples = 40, .global_batch = 8, .epochs = 1};
  options.wrap_dataset = [&](std::shared_ptr<const Dataset> inner) {
    const std::size_t sample = here ? sample_of_rank_1(world, options) : options.samples;
    return std::make_shared<const BrittleDataset>(std::move(inner), sample,
                                                  [&] { asked_often.wait(); });
  };
  options.enter_phase = [&](std::string_view phase, std::int64_t update) {
    waits = here && phase == "data" && update == kFailingUpdate + 1;
  };
  bool asked = false;
  int left = 3;
  options.stop_requested = [&] {
    asked = asked || waits;
    if (asked && left-- > 0) {
      asked_often.count_down();
    }
    return asked ? StopReason::kTerminate : StopReason::kFinished;
  };
  const TrainingResult result = run_small_training(world.communicator, options);
  require(result.stop == StopReason::kTerminate, "the training was not stopped");
  require(result.updates == kFailingUpdate, "stopped after ", result.updates, " updates");
}

class Failures : public testing::TestWithParam<int> {};

TEST_P(Failures, OfASampleAreAgreed) { expect_ranks_pass("bad_samples", GetParam()); }
TEST_P(Failures, BeforeACollectiveAreAgreed) { expect_ranks_pass("early_errors", GetParam()); }
TEST_P(Failures, BetweenCollectivesEndAllRanks) { expect_ranks_pass("late_errors", GetParam()); }
TEST_P(Failures, OfNumbersAreOneDecision) { expect_ranks_pass("nonfinite", GetParam()); }
TEST_P(Failures, AStopDoesNotWaitForAFile) { expect_ranks_pass("slow_file", GetParam()); }
TEST_P(Failures, OfAValidationSampleAreAgreed) { expect_ranks_pass("bad_validation", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ranks, Failures, testing::Values(2, 3),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

}  // namespace

void add_failure_cases(RankCases& cases) {
  cases["bad_samples"] = bad_samples;
  cases["early_errors"] = errors_before_a_collective;
  cases["late_errors"] = errors_between_collectives;
  cases["nonfinite"] = nonfinite_on_one_rank;
  cases["bad_validation"] = bad_validation_sample;
  cases["slow_file"] = stop_while_waiting_for_data;
}

}  // namespace temper::testing_support
