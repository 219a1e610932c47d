#include "golden/reference_settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "temper/core/error.h"
#include "temper/core/units.h"

namespace temper::testing_support {
namespace {

using Json = nlohmann::json;
using Forwards = std::vector<std::string>;

double number(const Json& value) {
  return value.is_string() ? parse_number(value.get<std::string>()) : value.get<double>();
}

double number_or(const Json& settings, const char* key, double absent) {
  return settings.contains(key) ? number(settings.at(key)) : absent;
}

void require_known(const Json& settings, const std::vector<std::string>& known) {
  for (const auto& [key, value] : settings.items()) {
    require(std::ranges::count(known, key) > 0, "the runner does not know the setting ", key);
  }
}

StatisticsMode mode_or(const Json& modes, const char* phase, StatisticsMode absent) {
  if (!modes.contains(phase)) {
    return absent;
  }
  const std::string name = modes.at(phase).get<std::string>();
  require(name == "update" || name == "batch" || name == "running", "no statistics mode ", name);
  return name == "update"  ? StatisticsMode::kUpdate
         : name == "batch" ? StatisticsMode::kBatch
                           : StatisticsMode::kRunning;
}

Norm norm_of(const std::string& name) {
  require(name == "linf" || name == "l2" || name == "l1", "no norm ", name);
  return name == "linf" ? Norm::kLinf : name == "l2" ? Norm::kL2 : Norm::kL1;
}

RandomStart start_of(const std::string& kind) {
  require(kind == "none" || kind == "normal" || kind == "uniform", "no start ", kind);
  return kind == "none"     ? RandomStart::kNone
         : kind == "normal" ? RandomStart::kNormal
                            : RandomStart::kUniform;
}

NoiseClamp clamp_of(const std::string& text) {
  if (text.find("inside") != std::string::npos || text == "image") {
    return NoiseClamp::kImage;
  }
  require(text.find("noise") != std::string::npos || text.find("outside") != std::string::npos ||
              text.find("not masked") != std::string::npos,
          "no clamp ", text);
  return NoiseClamp::kNoise;
}

// "10x(E adv, E clean)" -> ten times "E adv", "E clean"; "T adv (perturbed)" -> "T adv". The first
// word is the mode: E, T, or pT for a forward of the weight perturbation.
Forwards expand(const Json& listed) {
  Forwards all;
  for (const Json& item : listed) {
    std::string text = item.get<std::string>();
    int count = 1;
    const std::size_t times = text.find('x');
    if (times != std::string::npos && times > 0 && text.find_first_not_of("0123456789") == times) {
      count = std::stoi(text.substr(0, times));
      text = text.substr(times + 1);
    }
    text = text.starts_with("(") ? text.substr(1, text.find(')') - 1)
                                 : text.substr(0, text.find(" ("));
    for (int i = 0; i < count; ++i) {
      for (const std::string& part : split(text, ',')) {
        const std::string forward(trim(part));
        const bool runs =
            forward.starts_with("E") || forward.starts_with("T") || forward.starts_with("p");
        if (runs) {
          all.push_back(forward == "T per batch" ? "T" : forward);
        }
      }
    }
  }
  for (std::string& forward : all) {
    forward = forward.ends_with(" start") ? forward.substr(0, 1) + " adv" : forward;
  }
  return all;
}

// What Temper runs.
Forwards own_forwards(const CaseSettings& settings) {
  const bool official = settings.options.reference_order;
  const bool trades = settings.method == "trades";
  const bool perturbs = settings.options.weight_perturbation.has_value();
  const bool has_clean = trades || settings.method == "mart" || settings.method == "mixed";
  if (settings.method == "free") {
    return Forwards(static_cast<std::size_t>(settings.options.free.replays), "T");
  }
  const std::string mode =
      settings.options.statistics.attack == StatisticsMode::kRunning ? "E" : "T";
  Forwards all;
  const auto add = [&](const std::string& of, const Forwards& images) {
    for (const std::string& image : images) {
      all.push_back(of + " " + image);
    }
  };
  for (int i = 0; i < settings.attack.steps; ++i) {
    add(mode, trades && official ? Forwards{"adv", "clean"} : Forwards{"adv"});
  }
  const bool logs = settings.method == "pgd_at" && official;
  if (logs) {
    add(mode, {"adv"});
  }
  Forwards outer = has_clean ? Forwards{"clean", "adv"} : Forwards{"adv"};
  if (trades && official) {
    outer.emplace_back("clean");
  }
  if (perturbs) {
    add("pT", outer);
  }
  if (perturbs && trades && official) {
    outer = {"adv", "clean", "clean"};
  }
  add("T", outer);
  if (logs) {
    add("T", {"clean"});
  }
  return all;
}

// The official order is the one with the additional clean forward.
bool is_official(const std::string& method, const Forwards& forwards) {
  const auto clean = std::ranges::count(forwards, "T clean");
  return method == "trades" ? clean > 1 : method == "pgd_at" && clean > 0;
}

void read_weight_perturbation(const Json& settings, MethodOptions& options) {
  if (!settings.contains("weight_perturbation")) {
    return;
  }
  const Json& perturbation = settings.at("weight_perturbation");
  require_known(perturbation, {"gamma", "proxy_learning_rate", "start_epoch"});
  options.weight_perturbation = {
      .gamma = number(perturbation.at("gamma")),
      .start_epoch = static_cast<std::uint32_t>(number_or(perturbation, "start_epoch", 0)),
      .proxy_learning_rate = number(perturbation.at("proxy_learning_rate"))};
}

}  // namespace

CaseSettings read_case(const Json& settings) {
  require_known(settings, {"method", "norm", "epsilon", "step_size", "steps", "start", "beta",
                           "batch_norm", "forwards", "weight_perturbation", "label_smoothing",
                           "replays", "batches", "clamp"});
  const Json& start = settings.at("start");
  require_known(start, {"kind", "scale", "from_key"});
  const Json& modes = settings.at("batch_norm");
  require_known(modes, {"attack", "clean_forward", "adversarial_forward"});
  CaseSettings out{.method = settings.at("method").get<std::string>()};
  const RandomStart kind = start_of(start.at("kind").get<std::string>());
  out.threat_model = {.norm = norm_of(settings.at("norm").get<std::string>()),
                      .epsilon = number(settings.at("epsilon"))};
  out.attack = {.steps = settings.value("steps", 1),
                .step_size = number(settings.at("step_size")),
                .random_start = kind,
                .projects = out.method != "n_fgsm",
                .trades_l2_steps = out.method == "trades"};
  if (kind != RandomStart::kNone) {
    out.start_scale = number(start.at("scale"));
    out.start_key = start.at("from_key").get<std::string>();
  }
  out.batches = settings.value("batches", 0);
  const Forwards listed = expand(settings.at("forwards"));
  out.options = {
      .beta = number_or(settings, "beta", 1),
      .label_smoothing = number_or(settings, "label_smoothing", 0),
      .free = {.threat_model = out.threat_model,
               .step_size = out.attack.step_size,
               .replays = settings.value("replays", 1),
               .clamp = clamp_of(settings.value("clamp", std::string("inside the graph")))},
      .reference_order = is_official(out.method, listed),
      .statistics = {
          .attack = mode_or(modes, "attack", StatisticsMode::kRunning),
          .clean_forward = mode_or(modes, "clean_forward", StatisticsMode::kUpdate),
          .adversarial_forward = mode_or(modes, "adversarial_forward", StatisticsMode::kUpdate)}};
  read_weight_perturbation(settings, out.options);
  if (const Forwards own = own_forwards(out); own != listed) {
    out.other_forwards = concat("listed: ", join(listed, ", "), "; run: ", join(own, ", "));
  }
  return out;
}

OptimizerSettings read_optimizer(const Json& settings) {
  require_known(settings, {"name", "learning_rate", "momentum", "weight_decay", "dampening"});
  require(settings.at("name") == "sgd" && settings.at("dampening") == 0, "another optimizer");
  return {.learning_rate = number(settings.at("learning_rate")),
          .momentum = number(settings.at("momentum")),
          .weight_decay = number(settings.at("weight_decay"))};
}

}  // namespace temper::testing_support
