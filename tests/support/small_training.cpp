#include "support/small_training.h"

#include <ATen/ATen.h>

#include "support/compare.h"
#include "support/reference_nets.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/methods/adversarial_training.h"
#include "temper/models/architectures.h"

namespace temper::testing_support {

RandomDataset::RandomDataset(std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    labels_.push_back(static_cast<std::int64_t>(i * 7 % 10));
  }
  for (int i = 0; i < 10; ++i) {
    names_.push_back(std::to_string(i));
  }
}

Image RandomDataset::load(std::size_t index) const {
  SampleRandom random({.seed = 21, .purpose = Purpose::kMixing}, static_cast<std::uint32_t>(index));
  std::vector<std::uint8_t> pixels(3 * 8 * 8);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double bright = static_cast<std::size_t>(labels_[index]) == i % 10 ? 0.4 : 0;
    pixels[i] = static_cast<std::uint8_t>(255 * (0.6 * random.uniform() + bright));
  }
  return {.height = 8, .width = 8, .channels = 3, .pixels = std::move(pixels)};
}

std::shared_ptr<const RankReduction> reduction_of(Communicator& communicator) {
  auto reduction = std::make_shared<RankReduction>();
  reduction->rank = communicator.rank();
  reduction->world_size = communicator.world_size();
  reduction->sum = [&communicator](at::Tensor& tensor) { communicator.all_reduce_sum(tensor); };
  return reduction;
}

TrainingResult run_small_training(Communicator& communicator, const SmallTraining& options) {
  const RandomDataset train(options.samples);
  const RandomDataset validation(29);
  const auto model = make_reference_net(options.net);
  initialize(*model, options.seed);
  model->to(options.placement.device, options.placement.dtype);
  if (options.synchronized_batch_norm) {
    model->synchronize_batch_norm(reduction_of(communicator));
  }
  const ThreatModel threat_model{.epsilon = 0.05};
  const auto attack = std::make_shared<PgdAttack>(
      threat_model, PgdOptions{.steps = options.attack_steps, .step_size = 0.02});
  const auto method = built_in_methods().make(
      options.method, attack, {.beta = 2, .statistics = {.attack = options.attack_statistics}});
  std::vector<NamedParameter> named;
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& item : model->named_parameters()) {
    named.push_back({.name = item.key(), .tensor = item.value()});
    parameters.emplace_back(item.key(), item.value());
  }
  const auto optimizer = make_sgd(named, {.weight_decay = 5e-4});
  ShardedSampler sampler({.dataset_size = options.samples,
                          .global_batch_size = options.global_batch,
                          .accumulation = options.accumulation,
                          .rank = communicator.rank(),
                          .world_size = communicator.world_size(),
                          .seed = options.seed});
  const LoaderOptions loading{
      .threads = options.loader_threads, .seed = options.seed, .image_size = 8};
  Loader loader(train, Transform({RandomCrop{.size = 8, .padding = 1}, HorizontalFlip{}}), loading);
  Loader validation_loader(validation, Transform(), loading);
  const Placement& placement = options.placement;
  const auto reducer =
      make_gradient_reducer(parameters, communicator, {.overlap = options.overlap});
  SinkList sink;
  const auto validate = [&] {
    return evaluate(*model, validation_loader, {{"pgd", threat_model, attack}}, communicator,
                    {.dataset_size = validation.size(), .batch_size = 7, .placement = placement});
  };
  TrainerOptions trainer_options;
  trainer_options.seed = options.seed;
  trainer_options.shape = {
      .epochs = options.epochs,
      .updates_per_epoch = static_cast<std::int64_t>(sampler.updates_per_epoch()),
      .samples_per_epoch = static_cast<std::int64_t>(sampler.samples_per_epoch()),
      .max_updates = options.max_updates};
  trainer_options.placement = placement;
  Trainer trainer({.model = *model,
                   .method = *method,
                   .optimizer = *optimizer,
                   .reducer = *reducer,
                   .communicator = communicator,
                   .sampler = sampler,
                   .loader = loader,
                   .sink = sink,
                   .stop_requested = options.stop_requested,
                   .enter_phase = options.enter_phase},
                  trainer_options);
  TrainingResult result{.stop = trainer.run(),
                        .updates = trainer.progress().update,
                        .state = {},
                        .validation = validate()};
  for (const auto& [name, tensor] : state_dict(*model)) {
    result.state.emplace_back(name,
                              tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return result;
}

void require_equal_states(const StateDict& actual, const StateDict& expected, double tolerance) {
  require(actual.size() == expected.size(), "the states have ", actual.size(), " and ",
          expected.size(), " tensors");
  for (std::size_t i = 0; i < actual.size(); ++i) {
    require(actual[i].first == expected[i].first, actual[i].first, " instead of ",
            expected[i].first);
    const std::string problem = difference(actual[i].second, expected[i].second, tolerance);
    require(problem.empty(), actual[i].first, ": ", problem);
  }
}

}  // namespace temper::testing_support
