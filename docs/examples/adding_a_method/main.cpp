// A trainer with one method more: adversarial logit pairing (Kannan, Kurakin and Goodfellow,
// "Adversarial logit pairing", 2018), the mean of clean and adversarial cross entropy plus beta
// times the squared distance of the two logit vectors, averaged over classes.

#include <ATen/ops/mse_loss.h>

#include "temper/apps/trainer_program.h"
#include "temper/methods/adversarial_training.h"

namespace {

class LogitPairingLoss final : public temper::RobustLoss {
 public:
  LogitPairingLoss(double beta, double label_smoothing)
      : beta_(beta), label_smoothing_(label_smoothing) {}

  // Sums over the samples of this process, of which there may be none: the trainer divides by the
  // number of samples of all processes.
  [[nodiscard]] temper::LossTerms compute(const at::Tensor& clean_logits,
                                          const at::Tensor& /*robust_target_logits*/,
                                          const at::Tensor& adversarial_logits,
                                          const at::Tensor& labels) const override {
    const at::Tensor clean = temper::cross_entropy_sum(clean_logits, labels, label_smoothing_);
    const at::Tensor adversarial = temper::cross_entropy_sum(adversarial_logits, labels);
    const at::Tensor distance =
        at::mse_loss(clean_logits, adversarial_logits, at::Reduction::Sum) / clean_logits.size(1);
    return {
        .total = (clean + adversarial) / 2 + beta_ * distance, .clean = clean, .robust = distance};
  }
  [[nodiscard]] temper::InnerLoss inner_loss() const override {
    return temper::InnerLoss::kCrossEntropy;
  }

 private:
  double beta_;
  double label_smoothing_;
};

}  // namespace

int main(int argc, char** argv) {
  temper::Catalogs catalogs;
  catalogs.methods.add("alp", [](const std::shared_ptr<const temper::Attack>& attack,
                                 const temper::MethodOptions& options) {
    return std::make_shared<temper::AdversarialTraining>(
        attack, std::make_shared<LogitPairingLoss>(options.beta, options.label_smoothing), options);
  });
  return temper::run_trainer(argc, argv, catalogs);
}
