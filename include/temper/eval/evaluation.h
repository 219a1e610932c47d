#pragma once
// Exact clean and robust accuracy over a data set: each sample counts once for any world size and
// batch size.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "temper/attacks/attack.h"
#include "temper/attacks/threat_model.h"
#include "temper/data/loader.h"
#include "temper/dist/communicator.h"
#include "temper/models/classifier.h"
#include "temper/models/image_batch.h"

namespace temper {

// Where and in which type a model computes.
struct Placement {
  at::Device device{at::kCPU};
  at::ScalarType dtype = at::kFloat;
};

// Bytes become byte / 255; a copy on the device, channels-last on CUDA, where convolutions want it.
[[nodiscard]] ImageBatch to_device(const HostBatch& batch, const Placement& placement);

// Memory for a loader's batches that are copied to the device: pinned for CUDA, else null for
// ordinary memory.
[[nodiscard]] BatchAllocator batch_allocator(const Placement& placement);

struct NamedAttack {
  std::string name{};
  ThreatModel threat_model{};
  std::shared_ptr<const Attack> attack{};
  std::string settings{};  // for people: steps, step size, restarts
  int steps = 0;
  int restarts = 1;
};

struct EvaluationOptions {
  std::uint64_t dataset_size = 0;
  std::uint64_t samples = 0;       // how many to use, evenly spaced over the data set; 0: all
  std::uint64_t batch_size = 128;  // per rank
  double max_bad_samples = 0.01;   // part that the loader may leave out; more end the evaluation
  std::uint64_t seed = 0;
  Placement placement{};
  // Optional; true cuts this rank's work short, and must stay true. The result of all ranks is then
  // incomplete and its counts mean nothing.
  std::function<bool()> stop_requested{};
  // Optional; called before each batch and each step of an attack, for supervision: this rank
  // moves.
  std::function<void()> on_batch{};
};

struct AttackResult {
  NamedAttack attack{};
  // Samples classified right both before and under the attack.
  std::int64_t robust_correct = 0;
  // Attacked samples, those classified right before, that met such a gradient: many zeros hint at
  // gradient masking, so that the robust accuracy says little.
  std::int64_t zero_gradients = 0;
  std::int64_t nonfinite_gradients = 0;
  double seconds = 0;  // of the rank that took longest
};

// The Wilson score interval, at 95 %, of a share of `correct` among `samples`; [0, 1] without any.
struct ShareInterval {
  double low = 0;
  double high = 1;
};
[[nodiscard]] ShareInterval share_interval(std::int64_t correct, std::int64_t samples);

struct EvaluationResult {
  std::int64_t samples = 0;      // that count
  std::int64_t bad_samples = 0;  // left out, as they could not be loaded
  std::int64_t clean_correct = 0;
  std::int64_t top5_correct =
      0;  // label among the five largest logits; 0 with fewer than 10 classes
  std::int64_t classes = 0;
  std::vector<AttackResult> attacks{};
  bool complete = true;

  [[nodiscard]] double accuracy(std::int64_t correct) const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
};

// A collective. What fails on one rank alone, an unreadable sample for one, is a RankFailureError
// on all. The model is used with its running statistics; its modes are as before afterwards.
// `loader` belongs to the data set and must have no random transform; it may leave out bad samples,
// which are named in warnings of the main rank, but never replace them. Random starts are keyed by
// sample, so they do not depend on the sharding.
[[nodiscard]] EvaluationResult evaluate(Classifier& model, Loader& loader,
                                        const std::vector<NamedAttack>& attacks,
                                        Communicator& communicator,
                                        const EvaluationOptions& options);

}  // namespace temper
