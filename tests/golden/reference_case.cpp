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
  require(settings.at("norm") == "linf" || settings.at("norm") == "l2", "no norm ",
          settings.at("norm").dump());
  return {.norm = settings.at("norm") == "l2" ? Norm::kL2 : Norm::kLinf,
          .epsilon = number(settings.at("epsilon"))};
}

PgdOptions attack_options(const Json& settings) {
  const Json& start = settings.at("start");
  const std::string kind = start.at("kind").get<std::string>();
  require(kind == "none" || kind == "normal" || kind == "uniform", "no start ", kind);
  return {.steps = settings.at("steps").get<int>(),
          .step_size = number(settings.at("step_size")),
          .random_start = kind == "none"
                              ? RandomStart::kNone
                              : (kind == "normal" ? RandomStart::kNormal : RandomStart::kUniform),
          .trades_l2_steps = settings.at("method") == "trades"};
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

// The forwards of a case as its file lists them, in the official order or in Temper's own.
std::vector<std::string> forwards_of(const Json& settings, bool reference_order) {
  const bool trades = settings.at("method") == "trades";
  const std::string eval = mode(settings, "attack") == StatisticsMode::kRunning ? "E" : "T";
  const std::string steps = concat(settings.at("steps").get<int>(), "x");
  std::vector<std::string> forwards;
  if (trades && reference_order) {
    forwards = {concat(steps, "(", eval, " adv, ", eval, " clean)"), "T clean", "T adv", "T clean"};
  } else if (trades) {
    forwards = {concat(steps, eval, " adv"), "T clean", "T adv"};
  } else if (reference_order) {
    forwards = {concat(steps, eval, " adv"), concat(eval, " adv (attack loss)"), "T adv", "update",
                "T clean (logging)"};
  } else {
    forwards = {concat(steps, eval, " adv"), "T adv"};
  }
  return forwards;
}

// A setting that this runner does not know would be compared without being applied.
void require_known(const Json& settings, const std::vector<std::string>& known) {
  for (const auto& [key, value] : settings.items()) {
    require(std::ranges::count(known, key) > 0, "the runner does not know the setting ", key);
  }
}

// Mode of a phase that the case may leave out.
StatisticsMode mode_or(const Json& settings, const char* phase, StatisticsMode absent) {
  return settings.at("batch_norm").contains(phase) ? mode(settings, phase) : absent;
}

MethodOptions method_options(const Json& settings, bool reference_order) {
  const PhaseStatistics statistics{
      .attack = mode(settings, "attack"),
      .clean_forward = mode_or(settings, "clean_forward", StatisticsMode::kUpdate),
      .adversarial_forward = mode(settings, "adversarial_forward")};
  return {.beta = settings.contains("beta") ? number(settings.at("beta")) : 1,
          .reference_order = reference_order,
          .statistics = statistics};
}

// The image after one step, on a net of its own: its forwards may write statistics.
at::Tensor first_step(const Json& settings, const std::string& net, const ReferenceInputs& inputs) {
  PgdOptions options = attack_options(settings);
  options.steps = 1;
  const bool divergence = settings.at("method") == "trades";
  return PgdAttack(threat_model(settings), options)
      .perturb(*make_net(net, inputs), inputs.images[0], inputs.labels[0],
               {.loss = divergence ? InnerLoss::kKlDivergence : InnerLoss::kCrossEntropy,
                .statistics = mode(settings, "attack"),
                .samples = at::arange(inputs.labels.size(1)),
                .start_noise = start_noise(settings, inputs, 0)});
}

void record_outputs(std::map<std::string, at::Tensor>& stages, const StepOutput& output,
                    double count) {
  stages["adv_last"] = output.adversarial_images;
  stages["logits_clean"] = output.clean_logits;
  stages["logits_adv"] = output.adversarial_logits;
  stages["loss_total"] = output.loss / count;
  if (output.clean_loss.defined()) {
    stages["loss_natural"] = output.clean_loss / count;
    stages["loss_robust"] = output.robust_loss / count;
  }
}

// Clean logits with the updated weights and the batch's statistics.
void record_after_step(std::map<std::string, at::Tensor>& stages, Classifier& model,
                       const at::Tensor& images, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  const StatisticsModeGuard guard(model, StatisticsMode::kBatch);
  stages["logits_clean_after_step"] = model.forward(images);
  stages["loss_clean_after_step"] =
      cross_entropy_sum(stages["logits_clean_after_step"], labels) / labels.numel();
}

}  // namespace

bool is_supported(const Json& settings) {
  const auto method = settings.at("method").get<std::string>();
  const std::vector<std::string> later{"mart", "fgsm_rs", "n_fgsm", "free", "apgd_at"};
  const bool known = method == "trades" || method == "pgd_at";
  require(known || std::ranges::count(later, method) > 0, "no method ", method);
  return known && !settings.contains("weight_perturbation");
}

std::map<std::string, at::Tensor> run_case(const Json& settings, const Json& optimizer_settings,
                                           const std::string& net, const ReferenceInputs& inputs,
                                           bool reference_order) {
  require_known(settings, {"method", "norm", "epsilon", "step_size", "steps", "start", "beta",
                           "batch_norm", "forwards"});
  require_known(settings.at("start"), {"kind", "scale", "from_key"});
  const bool trades = settings.at("method") == "trades";
  require_known(settings.at("batch_norm"),
                trades ? std::vector<std::string>{"attack", "clean_forward", "adversarial_forward"}
                       : std::vector<std::string>{"attack", "adversarial_forward"});
  require_known(optimizer_settings,
                {"name", "learning_rate", "momentum", "weight_decay", "dampening"});
  require(optimizer_settings.at("name") == "sgd" && optimizer_settings.at("dampening") == 0,
          "another optimizer");
  std::map<std::string, at::Tensor> stages;
  const auto model = make_net(net, inputs);
  const auto method = built_in_methods().make(
      settings.at("method").get<std::string>(),
      std::make_shared<PgdAttack>(threat_model(settings), attack_options(settings)),
      method_options(settings, reference_order));
  std::vector<NamedParameter> named;
  for (const auto& item : model->named_parameters()) {
    named.push_back({item.key(), item.value()});
  }
  const auto optimizer =
      make_sgd(named, {.momentum = number(optimizer_settings.at("momentum")),
                       .weight_decay = number(optimizer_settings.at("weight_decay"))});
  stages["adv_step1"] = first_step(settings, net, inputs);
  PendingStatistics statistics(*model);
  std::vector<at::Tensor> totals;
  const at::Tensor not_skipped = at::zeros({});
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
      record_outputs(stages, output, count);
      for (const auto& item : model->named_parameters()) {
        stages["grad/" + item.key()] = item.value().grad().clone();
      }
    }
    optimizer->step(number(optimizer_settings.at("learning_rate")), not_skipped);
    method->after_update(*model, not_skipped);
    if (batch == 0) {
      record_after_step(stages, *model, inputs.images[batch], inputs.labels[batch]);
    }
    statistics.commit(at::ones({}, at::kBool));
    if (batch == 0) {
      record_state(stages, "state1/", *model);
    }
  }
  record_state(stages, "state5/", *model);
  stages["loss_total_5"] = at::stack(totals);
  return stages;
}

bool has_reference_order(const Json& settings) {
  const auto listed = settings.at("forwards").get<std::vector<std::string>>();
  const bool official = listed == forwards_of(settings, true);
  require(official || listed == forwards_of(settings, false),
          "the runner does not know these forwards: ", settings.at("forwards").dump());
  return official;
}

}  // namespace temper::testing_support
