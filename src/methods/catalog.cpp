#include "temper/methods/catalog.h"

#include "temper/methods/adversarial_training.h"
#include "temper/methods/free_training.h"

namespace temper {
namespace {

using AttackPointer = std::shared_ptr<const Attack>;
using Methods = Catalog<TrainingMethod, AttackPointer, MethodOptions>;

// Of a loss with a weight for its robust term.
template <typename Loss>
Methods::Factory with_beta() {
  return [](const AttackPointer& attack, const MethodOptions& options) {
    return std::make_shared<AdversarialTraining>(
        attack, std::make_shared<Loss>(options.beta, options.label_smoothing), options);
  };
}

std::shared_ptr<TrainingMethod> on_adversarial_images(const AttackPointer& attack,
                                                      const MethodOptions& options) {
  return std::make_shared<AdversarialTraining>(
      attack, std::make_shared<AdversarialLoss>(options.label_smoothing), options);
}

}  // namespace

Catalog<TrainingMethod, AttackPointer, MethodOptions> built_in_methods() {
  Methods methods("training method");
  methods.add("standard", [](const AttackPointer&, const MethodOptions& options) {
    return std::make_shared<StandardTraining>(options);
  });
  methods.add("pgd_at", on_adversarial_images);
  methods.add("mixed", with_beta<MixedLoss>());
  methods.add("trades", with_beta<TradesLoss>());
  methods.add("mart", with_beta<MartLoss>());
  methods.add("fgsm_rs", on_adversarial_images);
  methods.add("n_fgsm", on_adversarial_images);
  methods.add("free", [](const AttackPointer&, const MethodOptions& options) {
    return std::make_shared<FreeTraining>(options);
  });
  methods.add("apgd_at", on_adversarial_images);
  return methods;
}

}  // namespace temper
