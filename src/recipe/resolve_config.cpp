#include "recipe/check_config.h"
#include "recipe/describe.h"
#include "recipe/method_traits.h"
#include "temper/core/text.h"

namespace temper::recipe {
namespace {

// Gives the keys of an attack that nobody wrote values that follow from others.
class AttackDefaults {
 public:
  AttackDefaults(AttackConfig& attack, std::string path, double epsilon, const Places& places)
      : attack_(attack), path_(std::move(path)), epsilon_(epsilon), places_(places) {}

  // Those of the training methods that bring an attack of their own.
  void of_method(const std::string& method) {
    if (method == "fgsm_rs" || method == "n_fgsm" || method == "free") {
      set("steps", attack_.steps, 1);
      set("step_size", attack_.step_size, method == "fgsm_rs" ? 1.25 * epsilon_ : epsilon_);
      set("random_start", attack_.random_start, method == "free" ? "none" : "uniform");
    }
    if (method == "n_fgsm") {
      set("start_radius", attack_.start_radius, 2);
    }
    if (method == "apgd_at") {
      set("name", attack_.name, "apgd");
      set("steps", attack_.steps, 2);
    }
  }

  void of_name() {
    if (attack_.name == "fgsm") {
      set("steps", attack_.steps, 1);
      set("step_size", attack_.step_size, epsilon_);
      set("random_start", attack_.random_start, "none");
    }
    if (attack_.name == "apgd") {
      set("keep", attack_.keep, "best");
      set("step_size", attack_.step_size, 2 * epsilon_);
      set("random_start", attack_.random_start, "none");
    }
  }

 private:
  template <typename T, typename U>
  void set(const char* key, T& value, const U& follows) {
    if (!places_.contains(concat(path_, ".", key))) {
      value = follows;
    }
  }

  AttackConfig& attack_;
  const std::string path_;
  const double epsilon_;
  const Places& places_;
};

void resolve_transform(TransformConfig& transform, std::int64_t image_size) {
  for (TransformStepConfig& step : transform.steps) {
    if (step.size == 0 && has_size(step.name)) {
      step.size = image_size;
    }
  }
}

}  // namespace

void resolve_config(Config& config, const Places& places) {
  MethodConfig& method = config.method;
  const MethodTraits traits = method_traits(method.name);
  const std::string statistics = "method.batch_norm_statistics";
  const bool given = places.contains(statistics);
  if ((!traits.clean_forward || method.reference_order) &&
      !places.contains(statistics + ".adversarial_forward")) {
    method.batch_norm_statistics.adversarial_forward = "update";
  }
  if (method.reference_order && traits.attacks_in_training_mode && !given &&
      !places.contains(statistics + ".attack")) {
    method.batch_norm_statistics.attack = "update";
  }
  AttackDefaults defaults(method.attack, "method.attack", config.threat_model.epsilon, places);
  defaults.of_method(method.name);
  defaults.of_name();
  if (config.validation.attack) {
    AttackDefaults(*config.validation.attack, "validation.attack", config.threat_model.epsilon,
                   places)
        .of_name();
  }
  if (config.data.validation_split > 0 && !places.contains("data.validation")) {
    config.data.validation.reset();
  }
  resolve_transform(config.data.transform.train, config.data.image_size);
  resolve_transform(config.data.transform.evaluation, config.data.image_size);
  TrainingConfig& training = config.training;
  if (training.batch_size_per_process && !places.contains("training.global_batch_size")) {
    training.global_batch_size.reset();
  } else if (!training.batch_size_per_process && !training.global_batch_size) {
    training.global_batch_size = TrainingConfig{}.global_batch_size;
  }
}

}  // namespace temper::recipe
