#include "golden/reference_case.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "support/reference_nets.h"
#include "temper/attacks/pgd.h"
#include "temper/core/error.h"
#include "temper/core/units.h"
#include "temper/methods/adversarial_training.h"
#include "temper/models/model_state.h"
#include "temper/optim/gradients.h"
#include "temper/optim/optimizer.h"

namespace temper::testing_support {
namespace {

using Json = nlohmann::json;

double number(const Json& value) {
  return value.is_string() ? parse_number(value.get<std::string>()) : value.get<double>();
}

StatisticsMode mode(const Json& settings, const char* phase) {
  const std::string name = settings.at("batch_norm").at(phase).get<std::string>();
  require(name == "update" || name == "batch" || name == "running", "no statistics mode ", name);
  return name == "update" ? StatisticsMode::kUpdate
                          : (name == "batch" ? StatisticsMode::kBatch : StatisticsMode::kRunning);
}

ThreatModel threat_model(const Json& settings) {
  return {.norm = settings.at("norm") == "l2" ? Norm::kL2 : Norm::kLinf,
          .epsilon = number(settings.at("epsilon"))};
}

PgdOptions attack_options(const Json& settings) {
  const Json& start = settings.at("start");
  const std::string kind = start.at("kind").get<std::string>();
  return {.steps = settings.at("steps").get<int>(),
          .step_size = number(settings.at("step_size")),
          .random_start = kind == "none"
                              ? RandomStart::kNone
                              : (kind == "normal" ? RandomStart::kNormal : RandomStart::kUniform)};
}

at::Tensor start_noise(const Json& settings, const ReferenceInputs& inputs, std::int64_t batch) {
  const Json& start = settings.at("start");
  if (start.at("kind") == "none") {
    return {};
  }
  const at::Tensor& source = inputs.noise.at(start.at("from_key").get<std::string>()).as_tensor();
  return source[batch].to(at::kDouble) * number(start.at("scale"));
}

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

void record_state(std::map<std::string, at::Tensor>& stages, const std::string& prefix,
                  const Classifier& model) {
  for (const auto& [name, tensor] : state_dict(model)) {
    stages[prefix + name] = tensor.detach().clone();
  }
}

// A setting that this runner does not know would be compared without being applied.
void require_known(const Json& settings, const std::vector<std::string>& known) {
  for (const auto& [key, value] : settings.items()) {
    require(std::ranges::count(known, key) > 0, "the runner does not know the setting ", key);
  }
}

}  // namespace

bool is_supported(const Json& settings) {
  const auto method = settings.at("method").get<std::string>();
  return method == "trades" && settings.at("norm") == "linf" &&
         !settings.contains("weight_perturbation");
}

std::map<std::string, at::Tensor> run_case(const Json& settings, const Json& optimizer_settings,
                                           const std::string& net, const ReferenceInputs& inputs,
                                           bool reference_order) {
  require_known(settings, {"method", "norm", "epsilon", "step_size", "steps", "start", "beta",
                           "batch_norm", "forwards"});
  require_known(settings.at("batch_norm"), {"attack", "clean_forward", "adversarial_forward"});
  require_known(optimizer_settings,
                {"name", "learning_rate", "momentum", "weight_decay", "dampening"});
  require(optimizer_settings.at("name") == "sgd" && optimizer_settings.at("dampening") == 0,
          "another optimizer");
  std::map<std::string, at::Tensor> stages;
  const auto model = make_net(net, inputs);
  const ThreatModel threat = threat_model(settings);
  const MethodOptions options{
      .beta = number(settings.at("beta")),
      .reference_order = reference_order,
      .statistics = {.attack = mode(settings, "attack"),
                     .clean_forward = mode(settings, "clean_forward"),
                     .adversarial_forward = mode(settings, "adversarial_forward")}};
  const auto method = built_in_methods().make(
      settings.at("method").get<std::string>(),
      std::make_shared<PgdAttack>(threat, attack_options(settings)), options);
  std::vector<NamedParameter> named;
  for (const auto& item : model->named_parameters()) {
    named.push_back({item.key(), item.value()});
  }
  const auto optimizer =
      make_sgd(named, {.momentum = number(optimizer_settings.at("momentum")),
                       .weight_decay = number(optimizer_settings.at("weight_decay"))});
  PgdOptions first_step = attack_options(settings);
  first_step.steps = 1;
  stages["adv_step1"] = PgdAttack(threat, first_step)
                            .perturb(*model, inputs.images[0], inputs.labels[0],
                                     {.loss = InnerLoss::kKlDivergence,
                                      .statistics = options.statistics.attack,
                                      .start_noise = start_noise(settings, inputs, 0)});
  PendingStatistics statistics(*model);
  std::vector<at::Tensor> totals;
  for (std::int64_t batch = 0; batch < inputs.images.size(0); ++batch) {
    zero_gradients(model->parameters());
    const double count = static_cast<double>(inputs.labels.size(1));
    StepContext context{
        .model = *model,
        .backward = [&](const at::Tensor& loss_sum) { (loss_sum / count).backward(); },
        .start_noise = start_noise(settings, inputs, batch)};
    const StepOutput output = method->compute_gradients(
        context, {inputs.images[batch], inputs.labels[batch], at::arange(inputs.labels.size(1))});
    totals.push_back(output.loss / count);
    if (batch == 0) {
      stages["adv_last"] = output.adversarial_images;
      stages["logits_clean"] = output.clean_logits;
      stages["logits_adv"] = output.adversarial_logits;
      stages["loss_natural"] = output.clean_loss / count;
      stages["loss_robust"] = output.robust_loss / count;
      stages["loss_total"] = output.loss / count;
      for (const auto& item : model->named_parameters()) {
        stages["grad/" + item.key()] = item.value().grad().clone();
      }
    }
    optimizer->step(number(optimizer_settings.at("learning_rate")), at::zeros({}));
    statistics.commit(at::ones({}, at::kBool));
    if (batch == 0) {
      record_state(stages, "state1/", *model);
    }
  }
  record_state(stages, "state5/", *model);
  stages["loss_total_5"] = at::stack(totals);
  return stages;
}

}  // namespace temper::testing_support
