// distributed.check_collectives: ranks that are about to run different collectives, or that wait
// for one that does not come, end with an error that says which, and nothing was mixed up.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/agreement_cases.h"
#include "support/small_training.h"
#include "temper/core/error.h"
#include "temper/dist/gradient_reducer.h"

namespace temper::testing_support {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience = std::chrono::seconds(40);  // longer than any wait of a good run

std::unique_ptr<Communicator> checked(RankWorld& world, milliseconds timeout = kPatience,
                                      std::shared_ptr<CollectiveObserver> observer = nullptr) {
  static int number = 0;  // names of one store are used once
  return make_communicator(&world.store, {.rank = world.rank,
                                          .world_size = world.world_size,
                                          .timeout = timeout,
                                          .name = concat("checked ", number++),
                                          .check_collectives = true,
                                          .observer = std::move(observer)});
}

// All ranks leave together, so that no rank sees another one's end in place of the mismatch.
void meet(RankWorld& world) { static_cast<void>(any_rank(world.communicator, false)); }

template <typename Error, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  throw std::logic_error("nothing was thrown");
}

void require_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    require(text.find(part) != std::string::npos, "'", part, "' is missing in: ", text);
  }
}

// Rank 0 does one thing, the others another; all must fail with both descriptions.
void require_mismatch(RankWorld& world, const std::function<void(Communicator&)>& of_rank_0,
                      const std::function<void(Communicator&)>& of_the_others,
                      const std::vector<std::string>& descriptions) {
  {
    const auto communicator = checked(world);
    const std::string message = message_of<CollectiveMismatchError>(
        [&] { world.rank == 0 ? of_rank_0(*communicator) : of_the_others(*communicator); });
    require_contains(message, descriptions);
    require_contains(message, {"rank 0 is about to run ", world.world_size == 2
                                                              ? "rank 1 is about to run "
                                                              : "ranks 1, 2 are about to run "});
  }
  meet(world);
}

void sum(Communicator& communicator, const char* purpose, at::IntArrayRef shape,
         at::ScalarType dtype = at::kFloat) {
  const PurposeScope scope(communicator, purpose);
  at::Tensor values = at::ones(shape, dtype);
  communicator.all_reduce_sum(values);
}

// The same kind, type and shape: only what they are for tells them apart.
void one_extra_reduce(RankWorld& world) {
  require_mismatch(
      world,
      [](Communicator& communicator) {
        sum(communicator, "own metric", {1});
        sum(communicator, "loss", {1});
      },
      [](Communicator& communicator) { sum(communicator, "loss", {1}); },
      {"#1 all_reduce_sum float32 [1] for own metric", "#1 all_reduce_sum float32 [1] for loss"});
}

void swapped_order(RankWorld& world) {
  const auto in_order = [](const char* first, const char* second) {
    return [=](Communicator& communicator) {
      sum(communicator, "weights", {3});
      sum(communicator, first, {4, 4});
      sum(communicator, second, {4, 4});
    };
  };
  require_mismatch(
      world, in_order("left", "right"), in_order("right", "left"),
      {"#2 all_reduce_sum float32 [4, 4] for left", "#2 all_reduce_sum float32 [4, 4] for right"});
}

void float_and_int(RankWorld& world) {
  require_mismatch(
      world, [](Communicator& communicator) { sum(communicator, "counts", {5}, at::kFloat); },
      [](Communicator& communicator) { sum(communicator, "counts", {5}, at::kInt); },
      {"float32 [5] for counts", "int32 [5] for counts"});
}

// Without the check Gloo ends the process of the smaller one (std::terminate).
void ten_and_a_thousand(RankWorld& world) {
  require_mismatch(
      world, [](Communicator& communicator) { sum(communicator, "values", {10}); },
      [](Communicator& communicator) { sum(communicator, "values", {1000}); },
      {"float32 [10] for values", "float32 [1000] for values"});
}

void other_shape_of_equal_size(RankWorld& world) {
  require_mismatch(
      world,
      [](Communicator& communicator) {
        sum(communicator, "matrix", {2, 3});
      },
      [](Communicator& communicator) {
        sum(communicator, "matrix", {3, 2});
      },
      {"float32 [2, 3] for matrix", "float32 [3, 2] for matrix"});
}

void other_operation_and_root(RankWorld& world) {
  at::Tensor values = at::ones({2});
  require_mismatch(
      world, [&](Communicator& communicator) { communicator.all_reduce_max(values); },
      [&](Communicator& communicator) { communicator.all_reduce_sum(values); },
      {"#1 all_reduce_max float32 [2]", "#1 all_reduce_sum float32 [2]"});
  require_mismatch(
      world, [&](Communicator& communicator) { communicator.broadcast(values, 0); },
      [&](Communicator& communicator) { communicator.broadcast(values, 1); },
      {"#1 broadcast from rank 0 float32 [2]", "#1 broadcast from rank 1 float32 [2]"});
}

// One rank skipped an update or is a whole one ahead.
void other_update(RankWorld& world) {
  require_mismatch(
      world,
      [](Communicator& communicator) {
        communicator.set_place("communication", 7);
        sum(communicator, "update summary", {3});
      },
      [](Communicator& communicator) {
        communicator.set_place("communication", 8);
        sum(communicator, "update summary", {3});
      },
      {"update 7, phase communication", "update 8, phase communication"});
}

// Rank 0 ends after one update and saves, the others go on.
void disagreement_on_early_stop(RankWorld& world) {
  const auto train_for = [](std::int64_t updates) {
    return [=](Communicator& communicator) {
      static_cast<void>(run_small_training(
          communicator,
          {.method = "pgd_at", .synchronized_batch_norm = false, .max_updates = updates}));
    };
  };
  require_mismatch(world, train_for(1), train_for(2),
                   {"for checkpoint outcome", "for gradient bucket 0", "update 1"});
}

// The mismatch is found in the middle of a backward pass, in a hook of autograd.
void in_a_backward_pass(RankWorld& world) {
  constexpr std::int64_t kSize = 200000;  // 1.6 MB: a bucket of its own
  const auto backward = [](bool extra) {
    return [=](Communicator& communicator) {
      std::vector<std::pair<std::string, at::Tensor>> parameters;
      for (int i = 0; i < 3; ++i) {
        parameters.emplace_back(concat("w", i),
                                at::ones({kSize}, at::kDouble).set_requires_grad(true));
      }
      const auto reducer = make_gradient_reducer(parameters, communicator, {});
      at::Tensor loss = at::zeros({}, at::kDouble);
      for (const auto& [name, tensor] : parameters) {
        loss = loss + tensor.sum();
      }
      reducer->backward(loss);
      if (extra) {
        sum(communicator, "extra", {kSize}, at::kDouble);
      }
      reducer->backward(loss.detach() + parameters[0].second.sum() + parameters[1].second.sum() +
                        parameters[2].second.sum());
    };
  };
  require_mismatch(world, backward(true), backward(false), {"for extra", "for gradient bucket 0"});
}

// Parameters of equal shapes whose order differs: found when the reduction is built, also without
// the check.
void parameters_in_another_order(RankWorld& world) {
  for (const bool check : {true, false}) {
    const auto own = check ? checked(world) : nullptr;
    Communicator& communicator = check ? *own : world.communicator;
    std::vector<std::pair<std::string, at::Tensor>> parameters;
    for (const char* name : {"first", "second", "third"}) {
      parameters.emplace_back(name, at::ones({4}).set_requires_grad(true));
    }
    if (world.rank == 1) {
      std::swap(parameters[1].first, parameters[2].first);
    }
    for (const bool overlap : {true, false}) {
      const std::string message = message_of<AgreedError>([&] {
        static_cast<void>(make_gradient_reducer(parameters, communicator, {.overlap = overlap}));
      });
      require_contains(
          message, {"parameter 1 is third float32 [4] on rank 1", "second float32 [4] on rank 0"});
    }
    meet(world);
  }
}

// Rank 1 has ended its work, the others expect one more collective.
void a_rank_that_left(RankWorld& world) {
  auto communicator = checked(world);
  sum(*communicator, "loss", {1});
  if (world.rank == 1) {
    communicator.reset();
  } else {
    const std::string message =
        message_of<LostPeerError>([&] { sum(*communicator, "one more", {1}); });
    require_contains(message,
                     {"#2 all_reduce_sum float32 [1] for one more", "missing: rank 1",
                      "#1 all_reduce_sum float32 [1] for loss at update 0, after which it left"});
  }
  meet(world);
}

// Rank 1 waits for something else; nobody closes a connection.
void a_rank_that_waits_elsewhere(RankWorld& world) {
  const auto communicator = checked(world, std::chrono::seconds(5));
  sum(*communicator, "loss", {1});
  if (world.rank != 1) {
    const std::string message =
        message_of<LostPeerError>([&] { sum(*communicator, "one more", {1}); });
    require_contains(message, {"#2 all_reduce_sum float32 [1] for one more", "missing: rank 1",
                               "#1 all_reduce_sum float32 [1] for loss"});
  }
  meet(world);
}

// The check changes no bit and adds no collective to those that are checked.
void a_clean_training_is_the_same(RankWorld& world) {
  for (const bool synchronized : {true, false}) {
    const SmallTraining options{.synchronized_batch_norm = synchronized,
                                .accumulation = 2,
                                .compare_replicas_every = {2, Period::Unit::kUpdates}};
    const std::size_t first = world.collectives.size();
    world.communicator.set_place("", 0);
    const TrainingResult off = run_small_training(world.communicator, options);
    std::vector<CollectiveRecord> without = world.collectives.records(first);

    const auto log = std::make_shared<CollectiveLog>();
    const auto communicator = checked(world, kPatience, log);
    const std::size_t start = log->size();  // the connecting one
    const TrainingResult on = run_small_training(*communicator, options);
    std::vector<CollectiveRecord> with = log->records(start);

    require_equal_states(on.state, off.state, 0);
    require_equal_states(on.optimizer, off.optimizer, 0);
    require(with.size() == without.size(), with.size(), " collectives instead of ", without.size());
    for (std::size_t i = 0; i < with.size(); ++i) {
      with[i].sequence = without[i].sequence = 0;
      require(with[i] == without[i], to_string(with[i]), " instead of ", to_string(without[i]));
    }
    // Each says what it is for, else an extra one of equal shape would pass unseen.
    for (const CollectiveRecord& record : with) {
      require(!record.purpose.empty(), to_string(record), " has no purpose");
    }
  }
  meet(world);
}

// What supervision reads sees the buckets too, and only ever the last one.
void progress_sees_all(RankWorld& world) {
  CollectiveProgress progress;
  const auto log = std::make_shared<CollectiveLog>();
  const auto communicator = make_communicator(&world.store, {.rank = world.rank,
                                                             .world_size = world.world_size,
                                                             .timeout = kPatience,
                                                             .name = "progress",
                                                             .observer = log,
                                                             .progress = &progress});
  std::string in_the_attack;
  SmallTraining options{.epochs = 1};
  options.enter_phase = [&](std::string_view phase, std::int64_t update) {
    if (phase == "communication" && update == 1) {
      in_the_attack = to_string(progress.read());
    }
  };
  static_cast<void>(run_small_training(*communicator, options));
  require_contains(in_the_attack, {"all_reduce_sum float64", "(gradient bucket 0)"});
  const CollectiveState state = progress.read();
  require(state.begun == log->size() && state.ended == state.begun, state.begun, " begun, ",
          state.ended, " ended of ", log->size());
  require_contains(to_string(state), {log->records().back().operation, "(evaluation times)"});
  meet(world);
}

class Checker : public testing::TestWithParam<int> {};

TEST_P(Checker, NamesOneExtraReduce) { expect_ranks_pass("check_extra", GetParam()); }
TEST_P(Checker, NamesSwappedOrder) { expect_ranks_pass("check_swapped", GetParam()); }
TEST_P(Checker, NamesAnotherKind) { expect_ranks_pass("check_kinds", GetParam()); }
TEST_P(Checker, NamesAnotherUpdate) { expect_ranks_pass("check_update", GetParam()); }
TEST_P(Checker, NamesADisagreementOnEarlyStop) { expect_ranks_pass("check_stop", GetParam()); }
TEST_P(Checker, WorksInABackwardPass) { expect_ranks_pass("check_backward", GetParam()); }
TEST_P(Checker, NamesARankThatLeft) { expect_ranks_pass("check_left", GetParam()); }
TEST_P(Checker, NamesARankThatWaitsElsewhere) { expect_ranks_pass("check_waits", GetParam()); }
TEST_P(Checker, ChangesNoBitOfACleanTraining) { expect_ranks_pass("check_clean", GetParam()); }
TEST_P(Checker, ParametersInAnotherOrderAreRefused) {
  expect_ranks_pass("parameter_order", GetParam());
}
TEST_P(Checker, ProgressSeesEveryCollective) { expect_ranks_pass("progress", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ranks, Checker, testing::Values(2, 3),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

}  // namespace

void add_checker_cases(RankCases& cases) {
  cases["check_extra"] = one_extra_reduce;
  cases["check_swapped"] = swapped_order;
  cases["check_kinds"] = [](RankWorld& world) {
    float_and_int(world);
    ten_and_a_thousand(world);
    other_shape_of_equal_size(world);
    other_operation_and_root(world);
  };
  cases["check_update"] = other_update;
  cases["check_stop"] = disagreement_on_early_stop;
  cases["check_backward"] = in_a_backward_pass;
  cases["check_left"] = a_rank_that_left;
  cases["check_waits"] = a_rank_that_waits_elsewhere;
  cases["check_clean"] = a_clean_training_is_the_same;
  cases["parameter_order"] = parameters_in_another_order;
  cases["progress"] = progress_sees_all;
}

}  // namespace temper::testing_support
