// A run that stops and goes on equals one that never stopped: acceptance cases 8 and 9.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/cases.h"
#include "support/scratch_folder.h"
#include "support/small_training.h"
#include "temper/checkpoint/container.h"
#include "temper/core/error.h"

namespace temper::testing_support {
namespace {

constexpr std::int64_t kAllUpdates = 20;  // 4 epochs of 5

// Momentum, a schedule, an average, dropout, and an epoch that the batch does not divide.
SmallTraining settings(const std::string& method) {
  return {.method = method,
          .net = "dropout",
          .samples = 37,
          .global_batch = 8,
          .epochs = 4,
          .schedule = {.kind = ScheduleOptions::Kind::kCosine, .warmup = 3},
          .average = WeightAverageOptions{.decay = 0.9}};
}

// One folder for all ranks; the main rank's is removed at the end.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& communicator)
      : path_(broadcast_text(communicator, own_.path().string())) {}
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  [[nodiscard]] Value last() const { return read_checkpoint(checkpoints() / "last.pt"); }

 private:
  ScratchFolder own_;
  std::filesystem::path path_;
};

// Runs until `updates`, from a checkpoint or from the start, and saves.
TrainingResult run_until(Communicator& communicator, SmallTraining options,
                         const SharedFolder& folder, std::int64_t updates, const Value* from) {
  options.max_updates = updates;
  options.checkpoints = folder.checkpoints();
  options.resume_from = from;
  return run_small_training(communicator, options);
}

std::vector<std::vector<std::int64_t>> joined(std::vector<std::vector<std::int64_t>> first,
                                              const std::vector<std::vector<std::int64_t>>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

void require_same_records(const std::vector<TrainRecord>& actual,
                          const std::vector<TrainRecord>& expected) {
  require(actual.size() == expected.size(), actual.size(), " records instead of ", expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    require(actual[i].update == expected[i].update, "update ", actual[i].update);
    require(actual[i].learning_rate == expected[i].learning_rate, "learning rate of update ",
            actual[i].update);
    require(actual[i].loss == expected[i].loss, "loss of update ", actual[i].update);
  }
}

// Methods whose own state is carried on, too.
const std::vector<std::string> kMethods{"trades", "mixed",   "pgd_at", "mart", "fgsm_rs",
                                        "n_fgsm", "apgd_at", "free",   "awp"};

// `name`: of a method, or awp.
SmallTraining settings_of(const std::string& name) {
  SmallTraining options = settings(name == "awp" ? "trades" : name);
  if (name == "awp") {
    options.weight_perturbation = WeightPerturbationOptions{.gamma = 0.02, .start_epoch = 1};
    options.mixup = 0.4;
    options.epsilon_warmup = 8;
    options.samples = 19;  // 4 of them in a batch, so 5 updates an epoch
    options.extra_samples = 7;
  }
  return options;
}

// All updates; a batch is replayed by free.
std::int64_t updates_of(const SmallTraining& options) {
  return options.method == "free" ? kAllUpdates * options.replays : kAllUpdates;
}

// 20 updates at once, and 7 + resume + 13, which stops in mid-epoch (with free also
// between the replays of a batch): the same bits on each rank.
void resume_is_bit_exact(RankWorld& world, const std::string& method) {
  const SmallTraining options = settings_of(method);
  const std::int64_t all_updates = updates_of(options);
  const TrainingResult whole = run_small_training(world.communicator, options);
  require(whole.updates == all_updates, whole.updates, " updates");
  const SharedFolder folder(world.communicator);
  const TrainingResult first = run_until(world.communicator, options, folder, 7, nullptr);
  const Value checkpoint = folder.last();
  const TrainingResult second =
      run_until(world.communicator, options, folder, all_updates, &checkpoint);
  require_equal_states(second.state, whole.state, 0);
  require_equal_states(second.average, whole.average, 0);
  require_equal_states(second.optimizer, whole.optimizer, 0);
  require(joined(first.sample_order, second.sample_order) == whole.sample_order,
          "the order of the samples differs");
  require_same_records(second.records, {whole.records.begin() + 7, whole.records.end()});
}

// All ranks, then the main rank alone, then all ranks: equal to one process up to rounding.
void resume_on_another_world_size(RankWorld& world, const std::string& method) {
  const SmallTraining options = settings_of(method);
  const auto alone = make_communicator(nullptr, {});
  const TrainingResult whole = run_small_training(*alone, options);
  const SharedFolder folder(world.communicator);
  static_cast<void>(run_until(world.communicator, options, folder, 4, nullptr));
  if (world.communicator.is_main_rank()) {
    const Value checkpoint = folder.last();
    static_cast<void>(run_until(*alone, options, folder, 11, &checkpoint));
  }
  static_cast<void>(broadcast_text(world.communicator, "rank 0 has saved"));
  const Value checkpoint = folder.last();
  const TrainingResult last =
      run_until(world.communicator, options, folder, updates_of(options), &checkpoint);
  constexpr double kTolerance = 1e-9;
  require_equal_states(last.state, whole.state, kTolerance);
  require_equal_states(last.average, whole.average, kTolerance);
  // Each rank's samples are a part of those of the single process, batch by batch.
  for (std::size_t i = 0; i < last.sample_order.size(); ++i) {
    const auto& all = whole.sample_order[11 + i];
    for (std::size_t j = 0; j < last.sample_order[i].size(); ++j) {
      const std::size_t place =
          j * static_cast<std::size_t>(world.world_size) + static_cast<std::size_t>(world.rank);
      require(last.sample_order[i][j] == all[place], "another sample at place ", place,
              " of update ", 11 + i);
    }
  }
}

// Twice the batch in mid-epoch: no sample of the epoch is left out.
void resume_with_another_batch(RankWorld& world) {
  SmallTraining options = settings("trades");
  const SharedFolder folder(world.communicator);
  const TrainingResult first = run_until(world.communicator, options, folder, 8, nullptr);
  options.global_batch = 16;  // 3 updates an epoch; update 8 of 5 an epoch is sample 24 of epoch 1
  options.epochs = 2;
  const Value checkpoint = folder.last();
  const TrainingResult second = run_until(world.communicator, options, folder, 6, &checkpoint);
  require(second.updates == 6, second.updates, " updates");
  require(second.records.front().update == 5, "goes on with update ",
          second.records.front().update);
  std::vector<double> used(37, 0);
  for (std::size_t i = 5; i < first.sample_order.size(); ++i) {
    for (const std::int64_t sample : first.sample_order[i]) {
      used[static_cast<std::size_t>(sample)] = 1;
    }
  }
  for (const auto& batch : second.sample_order) {
    for (const std::int64_t sample : batch) {
      used[static_cast<std::size_t>(sample)] = 1;
    }
  }
  at::Tensor all = at::tensor(used, at::kDouble);
  world.communicator.all_reduce_max(all);
  require(all.min().item<double>() == 1, "a sample of the epoch was left out");
}

// A checkpoint without an average: it starts from the weights.
void average_may_be_added(RankWorld& world) {
  SmallTraining options = settings("mixed");
  options.average.reset();
  const SharedFolder folder(world.communicator);
  const TrainingResult first = run_until(world.communicator, options, folder, 3, nullptr);
  options.average = WeightAverageOptions{.decay = 0.5, .warmup = false};
  const Value checkpoint = folder.last();
  const TrainingResult second = run_until(world.communicator, options, folder, 4, &checkpoint);
  const auto halfway = [](const StateDict& a, const StateDict& b) {
    StateDict out;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool averaged = a[i].second.is_floating_point();
      out.emplace_back(a[i].first, averaged ? (a[i].second + b[i].second) / 2 : b[i].second);
    }
    return out;
  };
  require_equal_states(second.average, halfway(first.state, second.state), 1e-14);
}

class Resume : public testing::TestWithParam<int> {};

TEST_P(Resume, WithAnotherBatchLeavesNoSampleOut) { expect_ranks_pass("resume_batch", GetParam()); }
TEST_P(Resume, MayAddAnAverage) { expect_ranks_pass("resume_average", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ranks, Resume, testing::Values(1, 2, 3));

class ResumeOf : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(ResumeOf, IsBitExact) {
  expect_ranks_pass(concat("resume_", std::get<0>(GetParam())), std::get<1>(GetParam()));
}

const auto kName = [](const auto& parameter) {
  return concat(std::get<0>(parameter.param), "_", std::get<1>(parameter.param), "_ranks");
};

INSTANTIATE_TEST_SUITE_P(Methods, ResumeOf,
                         testing::Combine(testing::ValuesIn(kMethods), testing::Values(1, 2)),
                         kName);
INSTANTIATE_TEST_SUITE_P(OnThreeRanks, ResumeOf,
                         testing::Combine(testing::Values("trades", "pgd_at", "free", "awp"),
                                          testing::Values(3)),
                         kName);

class WorldSizes : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(WorldSizes, MayChangeAtAResume) {
  expect_ranks_pass(concat("worlds_", std::get<0>(GetParam())), std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Methods, WorldSizes,
                         testing::Combine(testing::ValuesIn(kMethods), testing::Values(2)), kName);
INSTANTIATE_TEST_SUITE_P(ThreeRanks, WorldSizes,
                         testing::Combine(testing::Values("trades", "mixed", "free", "awp"),
                                          testing::Values(3)),
                         kName);

}  // namespace

void add_resume_cases(RankCases& cases) {
  for (const std::string& method : kMethods) {
    cases["resume_" + method] = [method](RankWorld& world) { resume_is_bit_exact(world, method); };
    cases["worlds_" + method] = [method](RankWorld& world) {
      resume_on_another_world_size(world, method);
    };
  }
  cases["resume_batch"] = resume_with_another_batch;
  cases["resume_average"] = average_may_be_added;
}

}  // namespace temper::testing_support
