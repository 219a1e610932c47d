#include "recipe/check_method.h"

#include <cmath>

#include "recipe/method_traits.h"
#include "recipe/value_text.h"
#include "temper/core/text.h"

namespace temper::recipe {
namespace {

class MethodChecker {
 public:
  MethodChecker(const Config& config, ConfigFindings& findings)
      : config_(config), traits_(method_traits(config.method.name)), findings_(findings) {}

  void check_budget(double value, const std::string& path);
  void check_attack(const AttackConfig& attack, const std::string& path);
  void check_method();

 private:
  void check_fgsm(const AttackConfig& attack, const std::string& path);
  void check_apgd(const AttackConfig& attack, const std::string& path);
  void check_statistics();
  void check_method_parts();

  const Config& config_;
  const MethodTraits traits_;
  ConfigFindings& findings_;
};

void MethodChecker::check_budget(double value, const std::string& path) {
  const std::string& norm = config_.threat_model.norm;
  const bool linf = norm == "linf";
  const double size = static_cast<double>(config_.data.image_size);
  const double values = static_cast<double>(config_.data.channels) * size * size;
  const double largest = linf ? 1 : norm == "l2" ? std::sqrt(values) : values;
  if (value <= largest) {
    return;
  }
  const std::string meant =
      linf && value <= 255 ? concat("; did you mean '", to_text(value), "/255'?") : "";
  const std::string limit =
      linf ? "images are in [0,1] and this is in the same unit, so that 1 is the most"
           : concat("images are in [0,1], and no two are further apart than ", fixed(largest, 1),
                    " in ", norm);
  findings_.add({path, "threat_model.norm"},
                concat("must be at most ", linf ? "1" : fixed(largest, 1), ", found ",
                       to_text(value), ": ", limit, meant));
}

void MethodChecker::check_attack(const AttackConfig& attack, const std::string& path) {
  if (attack.restarts > 1 && attack.random_start == "none") {
    findings_.add(
        {path + ".restarts", path + ".random_start", path + ".name"},
        "without a random start all restarts are the same; set random_start, or restarts to 1");
  }
  if (attack.name == "apgd") {
    check_apgd(attack, path);
    return;
  }
  if (attack.name != "fgsm") {
    check_budget(attack.step_size, path + ".step_size");
    const bool leaves =
        attack.start_radius > 1 && (config_.method.name != "n_fgsm" || path != "method.attack");
    if (leaves && attack.random_start == "uniform") {
      findings_.add({path + ".start_radius", "method.name"},
                    concat("a start outside of the ball is for training with n_fgsm alone, found ",
                           to_text(attack.start_radius), "; the most is 1"));
    }
    return;
  }
  check_fgsm(attack, path);
}

void MethodChecker::check_fgsm(const AttackConfig& attack, const std::string& path) {
  if (attack.keep != "last" || attack.target != "none") {
    findings_.add({path + (attack.keep != "last" ? ".keep" : ".target"), path + ".name"},
                  "fgsm has no such choice; remove the key, or use pgd with steps: 1");
  }
  if (attack.steps != 1) {
    findings_.add(
        {path + ".steps", path + ".name"},
        concat("fgsm takes one step, found ", attack.steps, "; remove the key, or use pgd"));
  }
  if (attack.step_size != config_.threat_model.epsilon) {
    findings_.add({path + ".step_size", path + ".name", "threat_model.epsilon"},
                  concat("the step of fgsm is epsilon (", value_text(config_.threat_model.epsilon),
                         "), found ", value_text(attack.step_size),
                         "; remove the key, or use pgd with steps: 1"));
  }
  if (attack.random_start != "none") {
    findings_.add({path + ".random_start", path + ".name"},
                  "fgsm starts at the image itself; remove the key, or use pgd with steps: 1");
  }
}

void MethodChecker::check_apgd(const AttackConfig& attack, const std::string& path) {
  if (config_.threat_model.norm == "l1") {
    findings_.add({path + ".name", "threat_model.norm"},
                  "apgd is there for linf and l2; use pgd for l1");
  }
  if (attack.random_start == "normal" || attack.keep != "best" || attack.target != "none" ||
      attack.restarts != 1) {
    const char* key = attack.random_start == "normal" ? ".random_start"
                      : attack.keep != "best"         ? ".keep"
                      : attack.target != "none"       ? ".target"
                                                      : ".restarts";
    findings_.add(
        {path + key, path + ".name"},
        "apgd keeps the best iterate of one run, untargeted, from the image or a uniform start; "
        "remove the key, or use pgd");
  }
  // A printed configuration has the first step, which follows from epsilon.
  if (findings_.was_given(path + ".step_size") &&
      attack.step_size != 2 * config_.threat_model.epsilon) {
    findings_.add({path + ".step_size", path + ".name"},
                  "apgd chooses its step sizes itself; remove the key, or use pgd");
  }
}

void MethodChecker::check_statistics() {
  const MethodConfig& method = config_.method;
  const BatchNormStatisticsConfig& statistics = method.batch_norm_statistics;
  const bool clean = traits_.clean_forward || !traits_.of_the_library;
  const bool updated =
      (clean && statistics.clean_forward == "update") ||
      (traits_.adversarial_forward && statistics.adversarial_forward == "update") ||
      (traits_.attack && statistics.attack == "update");
  if (!updated) {
    const std::string prefix = "method.batch_norm_statistics";
    findings_.add(
        {prefix + ".clean_forward", prefix + ".adversarial_forward", prefix, "method.name"},
        concat("with method ", method.name,
               " no forward updates the running statistics, which evaluation needs; set ",
               traits_.clean_forward ? "clean_forward" : "adversarial_forward", " to update"));
  }
}

void MethodChecker::check_method() {
  const MethodConfig& method = config_.method;
  check_statistics();
  if (method.start_epoch > 0 && traits_.clean_forward &&
      method.batch_norm_statistics.clean_forward != "update") {
    findings_.add({"method.batch_norm_statistics.clean_forward", "method.start_epoch"},
                  "before method.start_epoch there is the clean forward alone, which must update "
                  "the running statistics; set it to update, or start_epoch to 0");
  }
  if (method.reference_order && !traits_.reference_order) {
    findings_.add({"method.reference_order", "method.name"},
                  concat("there is no reference order for ", method.name));
  }
  check_method_parts();
  if (method.reference_order && method.name == "pgd_at" && config_.training.accumulation > 1) {
    findings_.add(
        {"method.reference_order", "training.accumulation"},
        "the reference order of pgd_at has no accumulation; set training.accumulation to 1");
  }
  if (method.name == "trades" && method.attack.random_start == "none") {
    findings_.add(
        {"method.attack.random_start", "method.attack.name", "method.attack", "method.name"},
        "the loss of the trades attack has no gradient at the clean image, so it would follow "
        "rounding errors; use pgd with random_start: normal or uniform");
  }
  if (method.name == "trades" && method.attack.target != "none") {
    findings_.add({"method.attack.target", "method.name"},
                  "the attack of trades maximises a divergence and has no target; remove the key");
  }
  if (traits_.adversarial_forward) {
    check_attack(method.attack, "method.attack");
  }
}

// What some methods do not have.
void MethodChecker::check_method_parts() {
  const MethodConfig& method = config_.method;
  const AttackConfig& attack = method.attack;
  if (method.weight_perturbation && !traits_.attack) {
    findings_.add({"method.weight_perturbation", "method.name"},
                  concat("method ", method.name, " has no weight perturbation; set it to null"));
  }
  if (method.overfitting_check && method.overfitting_check->action == "roll_back" &&
      !traits_.attack) {
    findings_.add(
        {"method.overfitting_check.action", "method.overfitting_check", "method.name"},
        concat("method ", method.name, " has no attack to give more steps; set action to warn"));
  }
  if (method.name == "fgsm_rs" && attack.name == "fgsm") {
    findings_.add({"method.attack.name", "method.name"},
                  "fgsm starts at the image itself, fgsm_rs at random; leave the key out, or take "
                  "method pgd_at with this attack");
  }
  if (method.name == "n_fgsm" && (attack.name != "pgd" || config_.threat_model.norm == "l1")) {
    findings_.add({"method.attack.name", "threat_model.norm", "method.name"},
                  "n_fgsm takes steps of pgd in linf or l2");
  }
  const char* other = attack.name != "pgd"            ? "name"
                      : attack.steps != 1             ? "steps"
                      : attack.random_start != "none" ? "random_start"
                      : attack.restarts != 1          ? "restarts"
                      : attack.keep != "last"         ? "keep"
                      : attack.target != "none"       ? "target"
                                                      : nullptr;
  if (method.name == "free" && other != nullptr) {
    findings_.add(
        {concat("method.attack.", other), "method.attack", "method.name"},
        "free makes its noise along the way, with one step a replay from where it was; of "
        "method.attack it takes step_size alone");
  }
}

}  // namespace

void check_method(const Config& config, ConfigFindings& findings) {
  MethodChecker checker(config, findings);
  checker.check_budget(config.threat_model.epsilon, "threat_model.epsilon");
  checker.check_method();
  if (config.validation.attack) {
    checker.check_attack(*config.validation.attack, "validation.attack");
  }
}

}  // namespace temper::recipe
