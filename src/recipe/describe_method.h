#pragma once
// The sections `threat_model` and `method`, and attacks; see describe.h.

#include <string>
#include <vector>

#include "recipe/field.h"
#include "recipe/method_traits.h"
#include "temper/recipe/config.h"

namespace temper::recipe {

inline const std::vector<std::string> kStatisticsModes{"update", "batch", "running"};

template <typename Visitor>
void describe(Visitor& visit, ThreatModelConfig& threat) {
  visit("norm", threat.norm,
        {.help = "How a perturbation is measured.", .choices = {"linf", "l2", "l1"}});
  visit("epsilon", threat.epsilon,
        {.help = "Largest perturbation, in pixel units of [0,1] images.", .min = 0});
}

template <typename Visitor>
void describe(Visitor& visit, AttackConfig& attack) {
  visit(
      "name", attack.name,
      {.help = "`fgsm` is one step of size epsilon from the image itself; `apgd` chooses its step "
               "sizes, from 2 epsilon down, and keeps the best iterate.",
       .choices = {"fgsm", "pgd", "apgd"},
       .later = {"fab", "square", "autoattack"}});
  visit("steps", attack.steps, {.help = "Gradient steps.", .min = 1, .max = 65535});
  visit("step_size", attack.step_size,
        {.help = "Length of a step, in pixel units of [0,1] images.", .min = 0});
  visit("random_start", attack.random_start,
        {.help = "`uniform` in the ball, `normal` with `start_scale`, or `none`.",
         .choices = {"none", "uniform", "normal"}});
  visit("start_scale", attack.start_scale,
        {.help = "Standard deviation of a normal start.", .min = 0, .positive = true});
  visit("start_radius", attack.start_radius,
        {.help = "Radius of a uniform start, in epsilons; n_fgsm: 2.",
         .min = 0,
         .max = 100,
         .positive = true});
  visit("restarts", attack.restarts,
        {.help = "Runs from new random starts; each sample keeps the one with the largest loss.",
         .min = 1,
         .max = 1000});
  visit("keep", attack.keep,
        {.help = "Which iterate counts: the `last` one, or the `best`, that with the largest loss, "
                 "for one forward more.",
         .choices = {"last", "best"}});
  visit("target", attack.target,
        {.help = "`none`: away from the label; else towards another class: a `random` one, or the "
                 "`least_likely`.",
         .choices = {"none", "random", "least_likely"}});
}

template <typename Visitor>
void describe(Visitor& visit, WeightPerturbationConfig& perturbation) {
  visit("gamma", perturbation.gamma,
        {.help = "Size of the perturbation relative to the weights.", .min = 0, .max = 1});
  visit("start_epoch", perturbation.start_epoch, {.help = "First epoch with it.", .min = 0});
}

template <typename Visitor>
void describe(Visitor& visit, OverfittingCheckConfig& check) {
  visit("every", check.every, {.help = "How often.", .positive = true});
  visit("samples", check.samples,
        {.help = "Training images, chosen by the seed, without random transforms; attacked with "
                 "PGD-5 of step size epsilon / 4.",
         .min = 1});
  visit("fall", check.fall,
        {.help = "Alarm when their robust accuracy is this much below the last check's.",
         .min = 0,
         .max = 1,
         .positive = true});
  visit(
      "action", check.action,
      {.help = "`roll_back` takes up the weights of the last check again and doubles the steps of "
               "the attack.",
       .choices = {"warn", "roll_back"}});
}

template <typename Visitor>
void describe(Visitor& visit, BatchNormStatisticsConfig& statistics) {
  visit("attack", statistics.attack,
        {.help = "`update`: batch statistics, running ones updated; `batch`: batch statistics; "
                 "`running`: running statistics.",
         .choices = kStatisticsModes});
  visit("clean_forward", statistics.clean_forward,
        {.help = "The same for the outer forward of clean images.", .choices = kStatisticsModes});
  visit("adversarial_forward", statistics.adversarial_forward,
        {.help = "The same for adversarial images. Default of a method without a clean forward: "
                 "`update`.",
         .choices = kStatisticsModes});
}

template <typename Visitor>
void describe(Visitor& visit, MethodConfig& method) {
  visit("name", method.name,
        {.help = "The training method; `mixed` is CE(clean) + beta CE(adversarial), `pgd_at` "
                 "CE(adversarial) alone; see docs/methods.md.",
         .choices = method_names()});
  visit("beta", method.beta, {.help = "Weight of the robust loss.", .min = 0});
  visit("start_epoch", method.start_epoch,
        {.help = "Train on clean images until this epoch.", .min = 0});
  visit("attack", method.attack, {.help = "The inner maximisation."});
  visit("label_smoothing", method.label_smoothing,
        {.help = "Target (1 - s) one-hot + s / classes.", .min = 0, .max = 1, .below_max = true});
  visit("weight_perturbation", method.weight_perturbation,
        {.help = "Adversarial weight perturbation (AWP)."});
  visit("epsilon_warmup", method.epsilon_warmup,
        {.help = "Time, from `start_epoch` on, over which epsilon and the step size grow from 0."});
  visit("replays", method.replays,
        {.help = "Of `free`: updates from one batch.", .min = 1, .max = 1000});
  visit("noise_clamp", method.noise_clamp,
        {.help = "Of `free`: `image` clamps image + noise to [0,1], `noise` clamps the noise after "
                 "each step.",
         .choices = {"image", "noise"}});
  visit("overfitting_check", method.overfitting_check,
        {.help = "Looks for catastrophic overfitting, for methods with few attack steps."});
  visit("reference_order", method.reference_order,
        {.help = "The forwards of the authors' code, in its order and modes; for pgd_at on one "
                 "process."});
  visit("batch_norm_statistics", method.batch_norm_statistics,
        {.help = "What each forward does with batch norm."});
}

}  // namespace temper::recipe
