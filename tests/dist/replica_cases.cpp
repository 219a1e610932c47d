// Replicas that drift apart stop the run, on all ranks, with the tensor and the rank named.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/cases.h"
#include "support/small_training.h"
#include "temper/core/error.h"
#include "train/replica_check.h"

namespace temper::testing_support {
namespace {

// Flips the lowest bit of one tensor on one rank in one update, as bad memory would.
class BitFlip final : public TrainingMethod {
 public:
  BitFlip(std::shared_ptr<TrainingMethod> inner, std::string tensor, int updates)
      : inner_(std::move(inner)), tensor_(std::move(tensor)), updates_(updates) {}
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override {
    if (--updates_ == 0) {
      for (const auto& [name, tensor] : state_dict(context.model)) {
        if (name == tensor_) {
          tensor.detach().view(at::kLong).view(-1)[0].bitwise_xor_(1);
        }
      }
    }
    return inner_->compute_gradients(context, batch);
  }

 private:
  std::shared_ptr<TrainingMethod> inner_;
  std::string tensor_;
  int updates_;
};

std::string message_of(RankWorld& world, const SmallTraining& options) {
  try {
    static_cast<void>(run_small_training(world.communicator, options));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void require_contains(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos, "'", part, "' is not in: ", text);
}

void a_flipped_bit_is_found(RankWorld& world) {
  const int bad = world.world_size - 1;
  for (const std::string tensor : {"conv2.weight", "bn1.running_var"}) {
    SmallTraining options{.epochs = 4, .compare_replicas_every = {3, Period::Unit::kUpdates}};
    if (world.rank == bad) {
      options.wrap_method = [&](std::shared_ptr<TrainingMethod> inner) {
        return std::make_shared<BitFlip>(std::move(inner), tensor, 3);
      };
    }
    const std::string message = message_of(world, options);
    require_contains(message, "the replicas differ at update 3");
    require_contains(message, concat(tensor, " on rank ", bad));
  }
}

void equal_replicas_pass(RankWorld& world) {
  SmallTraining options{.samples = 37,
                        .average = WeightAverageOptions{},
                        .compare_replicas_every = {1, Period::Unit::kUpdates}};
  for (const bool synchronized : {true, false}) {
    options.synchronized_batch_norm = synchronized;
    require(message_of(world, options).empty(), "equal replicas were refused");
  }
}

// The first differing tensor by order of the model, and the ranks that are not with the majority.
void names_the_first_tensor_and_the_minority(RankWorld& world) {
  const at::Tensor same = at::arange(5);
  const at::Tensor of_one = at::full({2}, world.rank == 1 ? 1.0 : 2.0);
  const at::Tensor of_all = at::full({2}, static_cast<double>(world.rank));
  const std::string found = find_replica_difference(
      {{"same", same}, {"of_one", of_one}, {"of_all", of_all}}, world.communicator);
  require_contains(found, "of_one on rank 1 differs");
  require(find_replica_difference({{"same", same}}, world.communicator).empty(),
          "equal tensors differ");
  // NaN equals itself, and a zero does not equal a negative zero: these are bits.
  require(find_replica_difference({{"nan", at::full({1}, NAN)}}, world.communicator).empty(),
          "NaN differs from itself");
  const at::Tensor zero = at::full({1}, world.rank == 0 ? 0.0 : -0.0);
  require(!find_replica_difference({{"zero", zero}}, world.communicator).empty(),
          "signs of zero are not seen");
}

TEST(CompareReplicas, FindsAFlippedBit) { expect_ranks_pass("replica_flip", 2); }
TEST(CompareReplicas, FindsAFlippedBitOnOneOfThree) { expect_ranks_pass("replica_flip", 3); }
TEST(CompareReplicas, LetsEqualReplicasPass) { expect_ranks_pass("replica_equal", 3); }
TEST(CompareReplicas, NamesTheFirstTensorAndTheMinority) { expect_ranks_pass("replica_names", 3); }

}  // namespace

void add_replica_cases(RankCases& cases) {
  cases["replica_flip"] = a_flipped_bit_is_found;
  cases["replica_equal"] = equal_replicas_pass;
  cases["replica_names"] = names_the_first_tensor_and_the_minority;
}

}  // namespace temper::testing_support
