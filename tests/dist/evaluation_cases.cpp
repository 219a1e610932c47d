// Evaluation is exact over ranks and batch sizes: acceptance case 4.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>

#include "dist/cases.h"
#include "support/reference_nets.h"
#include "support/small_training.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/models/architectures.h"

namespace temper::testing_support {
namespace {

// Counts how often each sample is loaded.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::size_t size) : inner_(size), loads_(size, 0) {}
  [[nodiscard]] std::span<const std::int64_t> labels() const override { return inner_.labels(); }
  [[nodiscard]] std::span<const std::string> class_names() const override {
    return inner_.class_names();
  }
  [[nodiscard]] int channels() const override { return inner_.channels(); }
  [[nodiscard]] ElementType element_type() const override { return inner_.element_type(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return inner_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::size_t index) const override {
    return inner_.sample_name(index);
  }
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override {
    const std::scoped_lock lock(mutex_);
    ++loads_.at(index);
    return inner_.read(index, buffer);
  }
  [[nodiscard]] SampleInfo describe(std::size_t index) const override {
    return inner_.describe(index);
  }

  [[nodiscard]] at::Tensor loads() const {
    const std::scoped_lock lock(mutex_);
    return at::tensor(loads_);
  }

 private:
  RandomDataset inner_;
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> loads_;
};

// A net that is sometimes right, so that both counts say something, with running statistics that
// differ from rank to rank unless they are made equal.
std::shared_ptr<Classifier> trained_net(RankWorld& world) {
  const auto net = make_reference_net("cnn");
  const TrainingResult training = run_small_training(
      world.communicator,
      {.method = "standard", .synchronized_batch_norm = false, .samples = 128, .epochs = 40});
  net->to(at::kDouble);
  load_state_dict(*net, training.state, "the training");
  return net;
}

void require_same_buffers_on_all_ranks(RankWorld& world, const Classifier& net) {
  for (const auto& item : net.named_buffers()) {
    at::Tensor of_main_rank = item.value().clone();
    world.communicator.broadcast(of_main_rank, 0);
    require(at::equal(of_main_rank, item.value()), item.key(), " differs from rank 0");
  }
}

struct Evaluated {
  EvaluationResult result;
  at::Tensor loads;  // of each sample, over all ranks
};

Evaluated evaluate_net(Classifier& net, Communicator& communicator, std::size_t samples,
                       std::uint64_t batch_size) {
  const ThreatModel threat_model{.epsilon = 0.02};
  const auto attack =
      std::make_shared<PgdAttack>(threat_model, PgdOptions{.steps = 2, .step_size = 0.01});
  const CountingDataset data(samples);
  Loader loader(data, Transform(), {.threads = 2, .image_size = 8});
  Evaluated out{
      .result = evaluate(
          net, loader, {{"pgd", threat_model, attack}}, communicator,
          {.dataset_size = samples, .batch_size = batch_size, .placement = {.dtype = at::kDouble}}),
      .loads = data.loads()};
  communicator.all_reduce_sum(out.loads);
  return out;
}

void counts_are_exact(RankWorld& world) {
  const auto net = trained_net(world);
  require_same_buffers_on_all_ranks(world, *net);
  const auto alone = make_communicator(nullptr, {});
  for (const std::size_t samples : {std::size_t{1}, std::size_t{101}}) {
    const Evaluated expected = evaluate_net(*net, *alone, samples, samples);
    require(expected.loads.eq(1).all().item<bool>(), "one process did not load each sample once");
    if (samples > 1) {
      const std::int64_t robust = expected.result.attacks[0].robust_correct;
      require(robust > 0 && robust < expected.result.clean_correct &&
                  expected.result.clean_correct < 101,
              "counts that could not tell: ", expected.result.clean_correct, " clean, ", robust,
              " robust");
    }
    for (const std::uint64_t batch_size : {1, 7, 64}) {
      for (Communicator* communicator : {alone.get(), &world.communicator}) {
        const Evaluated actual = evaluate_net(*net, *communicator, samples, batch_size);
        const std::string where = concat(samples, " samples, batches of ", batch_size, ", ",
                                         communicator->world_size(), " ranks: ");
        require(actual.loads.eq(1).all().item<bool>(), where,
                "not each sample was evaluated exactly once");
        require(actual.result.samples == static_cast<std::int64_t>(samples), where, "counted ",
                actual.result.samples);
        require(actual.result.clean_correct == expected.result.clean_correct, where,
                actual.result.clean_correct, " clean instead of ", expected.result.clean_correct);
        require(
            actual.result.attacks[0].robust_correct == expected.result.attacks[0].robust_correct,
            where, actual.result.attacks[0].robust_correct, " robust instead of ",
            expected.result.attacks[0].robust_correct);
        require(actual.result.top5_correct == expected.result.top5_correct, where,
                "another top-5 count");
      }
    }
  }
}

class Evaluation : public testing::TestWithParam<int> {};

TEST_P(Evaluation, CountsEachSampleOnceForAnyBatchSize) {
  expect_ranks_pass("evaluation", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Evaluation, testing::Values(1, 2, 3),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

}  // namespace

void add_evaluation_cases(RankCases& cases) { cases["evaluation"] = counts_are_exact; }

}  // namespace temper::testing_support
