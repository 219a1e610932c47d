#pragma once
// A whole training, in double unless asked otherwise, on a small net and data made from keyed
// random numbers, through the real loader, sampler, reducer and trainer.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "temper/data/dataset.h"
#include "temper/dist/communicator.h"
#include "temper/eval/evaluation.h"
#include "temper/methods/catalog.h"
#include "temper/metrics/record.h"
#include "temper/models/model_state.h"
#include "temper/optim/weight_average.h"
#include "temper/train/trainer.h"

namespace temper::testing_support {

// Images of 3x8x8 whose ten labels follow from their content.
class RandomDataset final : public Dataset {
 public:
  explicit RandomDataset(std::size_t size);
  [[nodiscard]] std::span<const std::int64_t> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> class_names() const override { return names_; }
  [[nodiscard]] int channels() const override { return 3; }
  [[nodiscard]] ElementType element_type() const override { return ElementType::kUInt8; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return labels_.size(); }
  [[nodiscard]] std::string sample_name(std::size_t index) const override {
    return std::to_string(index);
  }
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override;
  [[nodiscard]] SampleInfo describe(std::size_t) const override { return {"random"}; }

 private:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_;
};

struct SmallTraining {
  std::string method = "trades";
  std::string net = "cnn";  // of reference_nets.h, or wide_cnn
  bool synchronized_batch_norm = true;
  bool overlap = true;
  double mixup = 0;
  double cutmix = 0;
  Norm norm = Norm::kLinf;
  std::optional<WeightPerturbationOptions> weight_perturbation{};
  int replays = 2;            // of free
  double epsilon_warmup = 0;  // in updates
  std::uint32_t start_epoch = 0;
  std::optional<OverfittingCheck> overfitting_check{};
  std::size_t samples = 32;
  std::size_t extra_samples = 0;  // behind them
  double extra_fraction = 0.5;
  std::uint64_t global_batch = 16;
  std::uint64_t accumulation = 1;
  std::int64_t epochs = 2;
  std::int64_t max_updates = 0;
  int loader_threads = 2;
  int attack_steps = 3;
  StatisticsMode attack_statistics = StatisticsMode::kRunning;
  StatisticsMode clean_statistics = StatisticsMode::kUpdate;
  // nullopt: the method's default.
  std::optional<StatisticsMode> adversarial_statistics{};
  std::uint64_t seed = 11;
  double label_smoothing = 0;
  ScheduleOptions schedule{};
  std::optional<WeightAverageOptions> average{};
  Period compare_replicas_every{0, Period::Unit::kUpdates};
  Placement placement{.dtype = at::kDouble};
  bool abort_on_nonfinite = false;
  // Optional; puts another data set around the one to train on.
  std::function<std::shared_ptr<const Dataset>(std::shared_ptr<const Dataset>)> wrap_dataset{};
  // Optional; puts another method around the real one.
  std::function<std::shared_ptr<TrainingMethod>(std::shared_ptr<TrainingMethod>)> wrap_method{};
  // Optional; the run goes on from this checkpoint, and saves one at its end.
  const Value* resume_from = nullptr;
  std::optional<std::filesystem::path> checkpoints{};
  std::function<StopReason()> stop_requested{};
  std::function<void(std::string_view phase, std::int64_t update)> enter_phase{};
};

struct TrainingResult {
  StopReason stop = StopReason::kFinished;
  std::int64_t updates = 0;
  StateDict state{};      // copies on the CPU, parameters and buffers
  StateDict average{};    // likewise, when there is one
  StateDict optimizer{};  // likewise
  std::vector<Event> events{};
  std::vector<TrainRecord> records{};                     // one an update
  std::vector<std::vector<std::int64_t>> sample_order{};  // this rank's samples, batch by batch
  EvaluationResult validation{};
};

// The batch-norm modes of the settings.
[[nodiscard]] PhaseStatistics phase_statistics(const SmallTraining& options);

[[nodiscard]] TrainingResult run_small_training(Communicator& communicator,
                                                const SmallTraining& options);

// How synchronised batch norm reaches a communicator's ranks.
[[nodiscard]] std::shared_ptr<const RankReduction> reduction_of(Communicator& communicator,
                                                                int layer = 0);

// Throws CheckFailure naming the first tensor that differs by more than `tolerance`; 0:
// bit-identical.
void require_equal_states(const StateDict& actual, const StateDict& expected, double tolerance);

}  // namespace temper::testing_support
