#pragma once
// The training loop. Every rank runs the same loop; whatever changes its course (skip, stop, end of
// time) is agreed in the one small collective of each update, so no rank decides alone.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "temper/checkpoint/directory.h"
#include "temper/data/loader.h"
#include "temper/data/sampler.h"
#include "temper/dist/communicator.h"
#include "temper/dist/gradient_reducer.h"
#include "temper/eval/evaluation.h"
#include "temper/methods/training_method.h"
#include "temper/metrics/sink.h"
#include "temper/models/classifier.h"
#include "temper/optim/optimizer.h"
#include "temper/optim/schedule.h"
#include "temper/optim/weight_average.h"
#include "temper/train/mixing.h"
#include "temper/train/progress.h"

namespace temper {

// Why the loop ended. Except for kFinished the update that saw the request was discarded, on all
// ranks alike.
enum class StopReason {
  kFinished,
  kCheckpoint,  // asked to save and stop
  kTerminate,
  kInterrupt,
  kTimeUp,
};

struct BestMetric {
  enum class Kind { kRobustAccuracy, kCleanAccuracy, kCleanTop5Accuracy };
  Kind kind = Kind::kRobustAccuracy;
  bool larger_is_better = true;
};

// Catastrophic overfitting (Wong, Rice and Kolter, "Fast is better than free", 2020, section 5.4):
// within an epoch a network learns to fool the weak attack that it is trained with, and its
// accuracy under a better one breaks down.
struct OverfittingCheck {
  Period every{1, Period::Unit::kEpochs};
  // Alarm when the accuracy on training images under the check's attack is this much below that of
  // the last good check.
  double fall = 0.2;
  // Go back to the state of the last good check, except for the progress, and strengthen the
  // method's attack. Otherwise a warning.
  bool roll_back = false;
};

struct TrainerOptions {
  std::uint64_t seed = 0;
  RunShape shape{};
  double learning_rate = 0.1;
  ScheduleOptions schedule{};
  std::optional<double> gradient_clip{};
  bool abort_on_nonfinite = false;
  std::int64_t max_skipped = 10;  // skipped updates in a row before the run is aborted
  std::optional<std::chrono::milliseconds> max_time{};
  Period validate_every{1, Period::Unit::kEpochs};
  Period checkpoint_every{1, Period::Unit::kEpochs};
  Period log_every{50, Period::Unit::kUpdates};
  // How often the bits of all ranks' tensors are compared, also before the first update; 0: never.
  Period compare_replicas_every{0, Period::Unit::kUpdates};
  MixingOptions mixing{};
  double max_bad_samples = 0.01;  // of an epoch, replaced by the loader; more end the run
  int loader_cpus = 0;       // processors for this rank's loader threads, for advice; 0: no advice
  std::int64_t classes = 0;  // 0: no warnings about a network that learns nothing
  BestMetric best{};
  // Validations in a row without a better metric after which the training ends.
  std::optional<std::int64_t> patience{};
  std::optional<OverfittingCheck> overfitting_check{};
  Placement placement{};
  ValueDict checkpoint_extra{};  // further entries of each checkpoint, e.g. the configuration
};

// What the loop works with; all must outlive it.
struct TrainerParts {
  Classifier& model;
  TrainingMethod& method;
  Optimizer& optimizer;
  GradientReducer& reducer;
  Communicator& communicator;
  ShardedSampler& sampler;
  Loader& loader;
  Sink& sink;                                        // on the main rank; may be empty on the others
  const CheckpointDirectory* checkpoints = nullptr;  // null on other ranks than the main one
  WeightAverage* average = nullptr;                  // null: none
  // A collective, of the weight average if there is one; null: no validation.
  std::function<EvaluationResult()> validate{};
  // A collective, of the model itself on training images; null: no check for overfitting.
  std::function<EvaluationResult()> check_overfitting{};
  // kFinished: no request. Called often, must be cheap.
  std::function<StopReason()> stop_requested{};
  // How often somebody has asked to save and go on. Called often, must be cheap.
  std::function<std::int64_t()> saves_requested{};
  // Called between the steps of an attack, for supervision: this rank moves.
  std::function<void()> alive{};
  // Called when a phase begins, for supervision. `update` counts from 1; 0: before the first.
  std::function<void(std::string_view phase, std::int64_t update)> enter_phase{};
};

class Trainer {
 public:
  Trainer(const TrainerParts& parts, const TrainerOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Takes up a checkpoint's state: model, average, optimizer, method and progress. Call on every
  // rank, before run. Throws ConfigError when it does not fit. An average that the checkpoint lacks
  // starts from its weights. When updates have other samples than before, the run goes on at the
  // last whole update before the saved place in the epoch.
  void restore(const Value& checkpoint);

  // Trains to the end or to a stop request; validates and saves on the way and at the end. A sample
  // that cannot be read on one rank, or an error there before the first collective of a
  // micro-batch, is a RankFailureError on all ranks at that update. Other errors of this rank are
  // thrown on it alone; the launcher ends the others.
  [[nodiscard]] StopReason run();

  [[nodiscard]] const Progress& progress() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace temper
