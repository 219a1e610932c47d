#pragma once
// The methods: standard training, and adversarial training composed of an attack and a robust loss.

#include <cstdint>
#include <memory>

#include "temper/attacks/attack.h"
#include "temper/core/catalog.h"
#include "temper/methods/robust_loss.h"
#include "temper/methods/training_method.h"

namespace temper {

// Batch-norm mode of each phase of a step.
struct PhaseStatistics {
  StatisticsMode attack = StatisticsMode::kRunning;
  StatisticsMode clean_forward = StatisticsMode::kUpdate;
  StatisticsMode adversarial_forward = StatisticsMode::kBatch;
};

struct MethodOptions {
  double beta = 6.0;              // weight of the robust term
  double label_smoothing = 0.0;   // of the clean cross entropy, without one of the adversarial
  std::uint32_t start_epoch = 0;  // trains on clean images until this epoch
  // The forwards of the official code, in its order. Those of pgd_at for logging are for one
  // process.
  bool reference_order = false;
  PhaseStatistics statistics{};
};

// Cross entropy on clean images.
class StandardTraining final : public TrainingMethod {
 public:
  explicit StandardTraining(const MethodOptions& options) : options_(options) {}
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override;

 private:
  MethodOptions options_;
};

// Attack, clean forward if the loss has one, adversarial forward, one backward. Before start_epoch
// it trains on clean images alone.
class AdversarialTraining final : public TrainingMethod {
 public:
  AdversarialTraining(std::shared_ptr<const Attack> attack, std::shared_ptr<const RobustLoss> loss,
                      const MethodOptions& options);
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override;
  void after_update(Classifier& model, const at::Tensor& skip) override;

 private:
  [[nodiscard]] at::Tensor attack(StepContext& context, const ImageBatch& batch,
                                  GradientCounts& counts) const;
  [[nodiscard]] bool logs_like_the_reference() const {
    return options_.reference_order && !loss_->has_clean_forward();
  }

  std::shared_ptr<const Attack> attack_;
  std::shared_ptr<const RobustLoss> loss_;
  MethodOptions options_;
  StandardTraining before_start_;
  at::Tensor logged_images_;  // of the reference's forward after the update
};

// The methods that a configuration can name: standard, trades, mixed, pgd_at. `attack` may be null
// for standard.
[[nodiscard]] Catalog<TrainingMethod, std::shared_ptr<const Attack>, MethodOptions>
built_in_methods();

}  // namespace temper
