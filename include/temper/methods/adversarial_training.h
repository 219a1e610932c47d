#pragma once
// Adversarial training composed of an attack and a robust loss, optionally at perturbed weights.

#include <memory>
#include <optional>

#include "temper/attacks/attack.h"
#include "temper/methods/method_options.h"
#include "temper/methods/robust_loss.h"
#include "temper/methods/standard_training.h"
#include "temper/methods/training_method.h"
#include "temper/methods/weight_perturbation.h"

namespace temper {

// Attack, clean forward if the loss has one, adversarial forward, one backward. Before start_epoch
// it trains on clean images alone.
class AdversarialTraining final : public TrainingMethod {
 public:
  AdversarialTraining(std::shared_ptr<const Attack> attack, std::shared_ptr<const RobustLoss> loss,
                      const MethodOptions& options);
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override;
  void after_update(Classifier& model, const at::Tensor& skip) override;
  // Up to 32 times the steps: who needs more has another problem.
  [[nodiscard]] bool can_strengthen_attack() const override { return steps_factor_ < 32; }
  int strengthen_attack() override;
  // How often the attack was strengthened, once it was.
  [[nodiscard]] StateDict state(const RankReduction& ranks) const override;
  void load_state(const StateDict& state) override;

 private:
  // Logits of the outer loss; undefined where the loss takes none.
  struct OuterLogits {
    at::Tensor clean{};
    at::Tensor robust_target{};
    at::Tensor adversarial{};
  };

  [[nodiscard]] at::Tensor attack(StepContext& context, const ImageBatch& batch,
                                  GradientCounts& counts) const;
  [[nodiscard]] OuterLogits outer_forwards(Classifier& model, const at::Tensor& clean,
                                           const at::Tensor& adversarial,
                                           const PhaseStatistics& statistics) const;
  [[nodiscard]] LossTerms outer_loss(const OuterLogits& logits, const ImageBatch& batch) const;
  void perturb_weights(StepContext& context, const ImageBatch& batch, StepOutput& output);
  [[nodiscard]] bool logs_like_the_reference() const {
    return options_.reference_order && !loss_->has_clean_forward();
  }

  std::shared_ptr<const Attack> attack_;
  std::shared_ptr<const RobustLoss> loss_;
  MethodOptions options_;
  StandardTraining before_start_;
  std::optional<WeightPerturbation> perturbation_;
  int steps_factor_ = 1;      // of the attack
  at::Tensor logged_images_;  // of the reference's forward after the update
};

}  // namespace temper
