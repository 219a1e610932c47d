#pragma once
// Adversarial weight perturbation: Wu, Xia and Wang, "Adversarial weight perturbation helps robust
// generalization" (2020), eqs. 7 to 11 and the official code.

#include <cstdint>
#include <string>
#include <vector>

#include "temper/core/state_dict.h"
#include "temper/models/batch_norm.h"
#include "temper/models/classifier.h"

namespace temper {

struct WeightPerturbationOptions {
  double gamma = 0.005;           // size relative to the norm of each weight
  std::uint32_t start_epoch = 0;  // none before
  // Of the ascent step that gives the direction. The direction is scaled, so that it hardly
  // matters.
  double proxy_learning_rate = 0.01;
};

// Moves the weights w of a model to w + gamma ||w|| / ||v|| v, with v the gradient of a loss over
// all ranks' samples, until restore. Only parameters with more than one dimension and "weight" in
// their name are moved.
class WeightPerturbation {
 public:
  explicit WeightPerturbation(const WeightPerturbationOptions& options) : options_(options) {}

  [[nodiscard]] const WeightPerturbationOptions& options() const { return options_; }

  // Takes an earlier perturbation off as if no optimizer step had followed it. For the next
  // micro-batch of an update, before the forwards of its loss.
  void discard();

  // `loss_sum`: differentiable sum over this rank's samples at the unperturbed weights. The
  // gradient is summed over ranks, in one collective, so that replicas stay bit-identical. No .grad
  // changes. Returns the directions ||w|| / ||v|| v by parameter name.
  StateDict perturb(Classifier& model, const at::Tensor& loss_sum, const RankReduction& ranks);

  // After the optimizer's step at the perturbed weights: the step's change of the weights is added
  // to the unperturbed ones, which are kept. When the step was skipped (`skip` is not zero; scalar
  // on the device, which the host does not read) the weights are bit by bit as before, also when
  // the perturbation itself was not finite.
  void restore(const at::Tensor& skip);

 private:
  void find_weights(Classifier& model);

  WeightPerturbationOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> unperturbed_;  // empty while no perturbation is in place
  std::vector<at::Tensor> perturbed_;
};

}  // namespace temper
