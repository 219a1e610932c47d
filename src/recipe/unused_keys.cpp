#include "recipe/check_config.h"
#include "recipe/method_traits.h"
#include "temper/core/text.h"

namespace temper::recipe {
namespace {

class UnusedKeys {
 public:
  UnusedKeys(const Config& config, const Places& places, const Problems& problems)
      : config_(config), places_(places), problems_(problems) {}

  void look_at_method();
  void look_at_times();
  void look_at_optimizer_and_schedule();
  [[nodiscard]] std::vector<std::string> take() { return std::move(notices_); }

 private:
  void notice(const std::string& path, const std::string& text) {
    if (const auto found = places_.find(path); found != places_.end()) {
      notices_.push_back(concat(problems_.place_text(found->second), ": ", path, ": ", text));
    }
  }
  // A key that is as it would be by default is passed over: a printed configuration has all keys.
  void unused(const std::string& path, bool differs, const std::string& why) {
    if (differs) {
      notice(path, concat("has no effect ", why));
    }
  }
  void look_at_statistics(const MethodTraits& traits, const std::string& why);

  const Config& config_;
  const Places& places_;
  const Problems& problems_;
  std::vector<std::string> notices_;
};

void UnusedKeys::look_at_method() {
  const MethodConfig& method = config_.method;
  const MethodConfig by_default;
  const MethodTraits traits = method_traits(method.name);
  const std::string why = concat("with method ", method.name);
  unused("method.beta", !traits.beta && method.beta != by_default.beta, why);
  if (!traits.adversarial_forward) {
    unused("method.start_epoch", method.start_epoch != 0, why);
    unused("method.attack", method.attack != by_default.attack, why);
    unused("method.epsilon_warmup", !method.epsilon_warmup.is_zero(), why);
  }
  if (method.name != "free") {
    unused("method.replays", method.replays != by_default.replays, why);
    unused("method.noise_clamp", method.noise_clamp != by_default.noise_clamp, why);
  }
  if (traits.of_the_library) {
    look_at_statistics(traits, why);
  }
  unused("method.attack.start_scale",
         method.attack.random_start != "normal" &&
             method.attack.start_scale != by_default.attack.start_scale,
         "without random_start: normal");
}

void UnusedKeys::look_at_statistics(const MethodTraits& traits, const std::string& why) {
  const BatchNormStatisticsConfig& statistics = config_.method.batch_norm_statistics;
  const BatchNormStatisticsConfig by_default;
  const std::string prefix = "method.batch_norm_statistics.";
  unused(prefix + "attack", !traits.attack && statistics.attack != by_default.attack, why);
  unused(prefix + "clean_forward",
         !traits.clean_forward && statistics.clean_forward != by_default.clean_forward, why);
}

// What would begin after the training has ended.
void UnusedKeys::look_at_times() {
  const MethodConfig& method = config_.method;
  const std::int64_t epochs = config_.training.epochs;
  const std::string why = concat("in a training of ", epochs, epochs == 1 ? " epoch" : " epochs");
  if (method_traits(method.name).adversarial_forward) {
    unused("method.start_epoch", method.start_epoch >= epochs,
           "but to train on clean images to the end");
  }
  const Period& warmup = method.epsilon_warmup;
  if (warmup.unit == Period::Unit::kEpochs &&
      static_cast<double>(method.start_epoch) + warmup.value > static_cast<double>(epochs)) {
    notice("method.epsilon_warmup",
           concat("ends after the training of ", epochs, epochs == 1 ? " epoch" : " epochs",
                  ", which never reaches the whole epsilon"));
  }
  if (const auto& perturbation = method.weight_perturbation) {
    unused("method.weight_perturbation", perturbation->start_epoch >= epochs,
           concat(why, ": it starts with epoch ", perturbation->start_epoch));
  }
  const auto is_later = [&](const Period& every) {
    return every.unit == Period::Unit::kEpochs && every.value > static_cast<double>(epochs);
  };
  if (const auto& check = method.overfitting_check) {
    unused("method.overfitting_check", is_later(check->every), why);
  }
  const Period& every = config_.validation.every;
  if (config_.validation.patience && every.unit == Period::Unit::kEpochs && !every.is_zero()) {
    unused("validation.patience",
           static_cast<double>(*config_.validation.patience) * every.value >=
               static_cast<double>(epochs),
           concat(why, " with validation.every: ", to_text(every)));
  }
}

void UnusedKeys::look_at_optimizer_and_schedule() {
  if (config_.schedule.name != "piecewise") {
    const std::string why = concat("with schedule ", config_.schedule.name);
    const ScheduleConfig by_default;
    unused("schedule.milestones", config_.schedule.milestones != by_default.milestones, why);
    unused("schedule.factor", config_.schedule.factor != by_default.factor, why);
  }
  if (config_.optimizer.name != "sgd") {
    unused("optimizer.momentum", config_.optimizer.momentum != OptimizerConfig{}.momentum,
           concat("with optimizer ", config_.optimizer.name));
  }
}

}  // namespace

std::vector<std::string> unused_keys(const Config& config, const Places& places,
                                     const Problems& problems) {
  UnusedKeys keys(config, places, problems);
  keys.look_at_method();
  keys.look_at_times();
  keys.look_at_optimizer_and_schedule();
  return keys.take();
}

}  // namespace temper::recipe
