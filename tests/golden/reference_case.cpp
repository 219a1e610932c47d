#include "golden/reference_case.h"

#include <ATen/ATen.h>

#include "support/reference_nets.h"
#include "temper/core/error.h"
#include "temper/methods/catalog.h"
#include "temper/methods/robust_loss.h"
#include "temper/models/model_state.h"
#include "temper/optim/gradients.h"
#include "temper/optim/optimizer.h"

namespace temper::testing_support {
namespace {

std::shared_ptr<Classifier> make_net(const std::string& net, const ReferenceInputs& inputs) {
  auto model = make_reference_net(net);
  StateDict state;
  for (const auto& [name, value] : inputs.state) {
    state.emplace_back(name, value.as_tensor());
  }
  load_state_dict(*model, state, "the reference state");
  model->to(at::kDouble);
  return model;
}

std::unique_ptr<Optimizer> make_optimizer(const Classifier& model,
                                          const OptimizerSettings& settings) {
  std::vector<NamedParameter> named;
  for (const auto& item : model.named_parameters()) {
    named.push_back({item.key(), item.value()});
  }
  return make_sgd(named, {.momentum = settings.momentum, .weight_decay = settings.weight_decay});
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return cross_entropy_sum(logits, labels) / labels.numel();
}

// The run of one case on one net.
class CaseRun {
 public:
  CaseRun(const CaseSettings& settings, const OptimizerSettings& optimizer, const std::string& net,
          const ReferenceInputs& inputs)
      : settings_(settings),
        learning_rate_(optimizer.learning_rate),
        inputs_(inputs),
        net_(net),
        model_(make_net(net, inputs)),
        optimizer_(make_optimizer(*model_, optimizer)),
        statistics_(*model_),
        method_(built_in_methods().make(
            settings.method, std::make_shared<PgdAttack>(settings.threat_model, settings.attack),
            settings.options)) {}

  std::map<std::string, at::Tensor> run() {
    const std::int64_t batches = settings_.batches > 0 ? settings_.batches : inputs_.images.size(0);
    const bool replays = settings_.method == "free";
    if (!replays) {
      record_attack();
    }
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      for (int replay = 0; replay < method_->updates_per_batch(); ++replay) {
        step(batch);
      }
      if (replays) {
        stages_[concat("noise_after_batch", batch)] = method_->state({}).front().second.clone();
      }
    }
    if (replays) {
      stages_["adv_last"] = last_images_;
      stages_["logits"] = at::stack(logits_);
      stages_["loss_total"] = at::stack(totals_);
    } else {
      stages_[concat("loss_total_", batches)] = at::stack(totals_);
    }
    return stages_;
  }

 private:
  [[nodiscard]] at::Tensor start_noise(std::int64_t batch) const {
    return settings_.start_key.empty()
               ? at::Tensor()
               : inputs_.noise.at(settings_.start_key).as_tensor()[batch].to(at::kDouble) *
                     settings_.start_scale;
  }

  // The images after some steps, on a net of its own: its forwards may write statistics.
  [[nodiscard]] at::Tensor attacked(int steps) const {
    PgdOptions options = settings_.attack;
    options.steps = steps;
    const bool divergence = settings_.method == "trades";
    return PgdAttack(settings_.threat_model, options)
        .perturb(*make_net(net_, inputs_), inputs_.images[0], inputs_.labels[0],
                 {.loss = divergence ? InnerLoss::kKlDivergence : InnerLoss::kCrossEntropy,
                  .statistics = settings_.options.statistics.attack,
                  .samples = at::arange(inputs_.labels.size(1)),
                  .start_noise = start_noise(0)});
  }

  void record_attack() {
    stages_["adv_start"] = attacked(0);
    stages_["adv_step1"] = attacked(1);
    const auto net = make_net(net_, inputs_);
    const at::NoGradGuard no_grad;
    const StatisticsModeGuard mode(*net, settings_.options.statistics.attack);
    stages_["logits_adv_start"] = net->forward(stages_["adv_start"]);
    stages_["loss_start"] = cross_entropy(stages_["logits_adv_start"], inputs_.labels[0]);
  }

  void step(std::int64_t batch) {
    zero_gradients(model_->parameters());
    const double count = static_cast<double>(inputs_.labels.size(1));
    StepContext context{
        .model = *model_,
        .backward = [&](const at::Tensor& loss_sum) { (loss_sum / count).backward(); },
        .start_noise = start_noise(batch)};
    const StepOutput output = method_->compute_gradients(
        context,
        {inputs_.images[batch], inputs_.labels[batch], at::arange(inputs_.labels.size(1))});
    totals_.push_back(output.loss / count);
    logits_.push_back(output.adversarial_logits);
    last_images_ = output.adversarial_images;
    const bool first = updates_ == 0;
    if (first) {
      record_outputs(output, count);
    }
    if (updates_ == 1 && settings_.method == "free") {
      stages_["adv_step1"] = output.adversarial_images;
    }
    const at::Tensor not_skipped = at::zeros({});
    optimizer_->step(learning_rate_, not_skipped);
    method_->after_update(*model_, not_skipped);
    if (first) {
      record_after_step();
    }
    statistics_.commit(at::ones({}, at::kBool));
    ++updates_;
    const char* name = settings_.method == "free" ? "state_step" : "state";
    for (const auto& [key, tensor] : state_dict(*model_)) {
      stages_[concat(name, updates_, "/", key)] = tensor.detach().clone();
    }
  }

  void record_outputs(const StepOutput& output, double count) {
    stages_["adv_last"] = output.adversarial_images;
    stages_["logits_clean"] = output.clean_logits;
    stages_["logits_adv"] = output.adversarial_logits;
    stages_["loss_total"] = output.loss / count;
    stages_["loss_robust"] = output.robust_loss / count;
    if (output.clean_loss.defined()) {
      stages_["loss_natural"] = output.clean_loss / count;
    }
    if (settings_.method == "mart") {
      stages_["loss_bce"] = (output.loss - settings_.options.beta * output.robust_loss) / count;
      stages_["loss_adv_ce"] = cross_entropy(output.adversarial_logits, inputs_.labels[0]);
      stages_["loss_adv_margin"] = stages_["loss_bce"] - stages_["loss_adv_ce"];
      stages_["kl_per_sample"] =
          MartLoss::divergence(output.clean_logits, output.adversarial_logits);
    }
    if (output.proxy_loss.defined()) {
      stages_["logits_adv_proxy"] = output.proxy_adversarial_logits;
      for (const char* key : {"loss_adv_proxy", "loss_proxy", "loss_total_proxy"}) {
        stages_[key] = output.proxy_loss / count;
      }
      for (const auto& [name, direction] : output.weight_directions) {
        stages_["awp_diff/" + name] = direction;
      }
    }
    for (const auto& item : model_->named_parameters()) {
      stages_["grad/" + item.key()] = item.value().grad().clone();
    }
  }

  // Clean logits with the updated weights and the batch's statistics.
  void record_after_step() {
    const at::NoGradGuard no_grad;
    const StatisticsModeGuard guard(*model_, StatisticsMode::kBatch);
    stages_["logits_clean_after_step"] = model_->forward(inputs_.images[0]);
    stages_["loss_clean_after_step"] =
        cross_entropy(stages_["logits_clean_after_step"], inputs_.labels[0]);
  }

  const CaseSettings& settings_;
  double learning_rate_;
  const ReferenceInputs& inputs_;
  std::string net_;
  std::shared_ptr<Classifier> model_;
  std::unique_ptr<Optimizer> optimizer_;
  PendingStatistics statistics_;
  std::shared_ptr<TrainingMethod> method_;
  std::map<std::string, at::Tensor> stages_;
  std::vector<at::Tensor> totals_;
  std::vector<at::Tensor> logits_;
  at::Tensor last_images_;
  std::int64_t updates_ = 0;
};

}  // namespace

std::map<std::string, at::Tensor> run_case(const CaseSettings& settings,
                                           const OptimizerSettings& optimizer,
                                           const std::string& net, const ReferenceInputs& inputs) {
  return CaseRun(settings, optimizer, net, inputs).run();
}

}  // namespace temper::testing_support
