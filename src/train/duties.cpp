#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/text.h"
#include "temper/models/model_state.h"
#include "train/loop.h"
#include "train/replica_check.h"

namespace temper {

// Before validation and saving: neither is worth anything once ranks differ.
void Trainer::Loop::compare_replicas() {
  if (compared_update_ == progress.update) {
    return;
  }
  note_place("compare replicas", progress.update);
  StateDict tensors = state_dict(parts_.model);
  if (parts_.average != nullptr) {
    for (const auto& [name, tensor] : parts_.average->tensors()) {
      tensors.emplace_back("average." + name, tensor);
    }
  }
  const std::string difference = find_replica_difference(tensors, parts_.communicator);
  if (!difference.empty()) {
    throw AgreedError(
        concat("the replicas differ at update ", progress.update, ": ", difference,
               "; the last checkpoint may hold it, too. Check the memory of these hosts, and that "
               "all run the same build"));
  }
  compared_update_ = progress.update;
}

void Trainer::Loop::do_due_work() {
  const bool last = progress.update >= options_.shape.last_update();
  const bool compares = !options_.compare_replicas_every.is_zero();
  if (compares && options_.shape.is_due(options_.compare_replicas_every, progress.update)) {
    compare_replicas();
  }
  if (options_.overfitting_check && parts_.check_overfitting &&
      options_.shape.is_due(options_.overfitting_check->every, progress.update) &&
      progress.checked_update != progress.update) {
    check_overfitting();
  }
  bool best = false;
  const bool validation_due =
      last || options_.shape.is_due(options_.validate_every, progress.update);
  if (!stopped_ && parts_.validate && !options_.validate_every.is_zero() && validation_due &&
      progress.validated_update != progress.update) {
    best = validate();
  }
  const bool asked = std::exchange(save_requested_, false);
  if (!stopped_ && saved_update_ != progress.update &&
      (last || best || asked || has_ended_early() ||
       options_.shape.is_due(options_.checkpoint_every, progress.update))) {
    save(best);
  }
  if (asked && !stopped_) {
    event("saved");
    if (parts_.communicator.is_main_rank()) {
      log_info("saved at update ", progress.update, " as asked by SIGUSR2; the training goes on");
    }
  }
}

// All ranks know that an evaluation of one was stopped; now they agree on the reason.
void Trainer::Loop::agree_on_stop() {
  summary_.begin();
  summary_.reduce(own_stop_request(), false, 0, clock_.take(), 0, statistics_);
  stop_ = stop_reason_of(summary_.values().cpu().const_data_ptr<double>());
  stopped_ = true;
  require(stop_ != StopReason::kFinished, "an evaluation was cut short without a stop request");
}

// The counts are sums over the ranks, so all take the same way.
void Trainer::Loop::check_overfitting() {
  note_place("check overfitting", progress.update);
  const OverfittingCheck& check = *options_.overfitting_check;
  const EvaluationResult result = parts_.check_overfitting();
  if (!result.complete) {
    agree_on_stop();
    return;
  }
  const double accuracy = result.accuracy(result.attacks.front().robust_correct);
  const double before = progress.checked_accuracy;
  event("overfitting_check", {{"robust_training_accuracy", accuracy}});
  progress.checked_update = progress.update;
  interval_.restart_clock();
  if (std::isnan(before) || accuracy >= before - check.fall) {
    accept_check(accuracy);
    return;
  }
  const bool rolls_back =
      check.roll_back && !roll_back_to_.empty() && parts_.method.can_strengthen_attack();
  const int factor = rolls_back ? roll_back() : 1;
  const std::string text =
      concat("catastrophic overfitting: the robust accuracy on training images fell from ",
             fixed(100 * before, 1), " % to ", fixed(100 * accuracy, 1), " %; ",
             rolls_back ? concat("the weights of the last check are taken up again, and the attack "
                                 "takes ",
                                 factor, " times its steps from now on")
             : !check.roll_back ? "use more attack steps, a smaller step size or epsilon, or set "
                                  "method.overfitting_check.action to roll_back"
             : roll_back_to_.empty()
                 ? "the training goes on, as there is no state of an earlier check to go back to"
                 : "the training goes on, as the attack cannot be strengthened any further; use a "
                   "smaller step size or epsilon");
  if (parts_.communicator.is_main_rank()) {
    log_warning("update ", progress.update, ": ", text);
  }
  event("warning", {{"warning", std::string("catastrophic_overfitting")}, {"text", text}});
  if (rolls_back) {
    event("rolled_back", {{"steps_factor", std::int64_t{factor}}});
  } else {
    accept_check(accuracy);
  }
}

// What the next check is compared with.
void Trainer::Loop::accept_check(double accuracy) {
  progress.checked_accuracy = accuracy;
  if (options_.overfitting_check->roll_back) {
    roll_back_to_ = copy_of(tensor_state(run_parts(), parts_.method.state(ranks_)));
  }
}

// How many times its steps the attack takes from now on.
int Trainer::Loop::roll_back() {
  restore_tensors(roll_back_to_, run_parts());
  const int factor = parts_.method.strengthen_attack();
  // What is gone back to the next time has the stronger attack.
  roll_back_to_["method"] = to_dict(parts_.method.state(ranks_));
  return factor;
}

// The training ends before its last update: no better validation for long.
bool Trainer::Loop::has_ended_early() const {
  return options_.patience && progress.validations_without_best >= *options_.patience;
}

namespace {

// A validation without an attack has clean accuracy alone.
std::int64_t correct_of(const EvaluationResult& result, BestMetric::Kind kind) {
  switch (kind) {
    case BestMetric::Kind::kCleanTop5Accuracy:
      return result.top5_correct;
    case BestMetric::Kind::kRobustAccuracy:
      if (!result.attacks.empty()) {
        return result.attacks.front().robust_correct;
      }
      break;
    case BestMetric::Kind::kCleanAccuracy:
      break;
  }
  return result.clean_correct;
}

}  // namespace

// Whether the result is the best one so far.
bool Trainer::Loop::validate() {
  note_place("validation", progress.update);
  const EvaluationResult result = parts_.validate();
  if (!result.complete) {
    agree_on_stop();
    return false;
  }
  ValidationRecord record = validation_record(result, epoch_of(progress.update), progress.update);
  record.average = parts_.average != nullptr;
  parts_.sink.write(record);
  progress.validated_update = progress.update;
  const double metric = result.accuracy(correct_of(result, options_.best.kind));
  const bool best = std::isnan(progress.best_metric) ||
                    (options_.best.larger_is_better ? metric > progress.best_metric
                                                    : metric < progress.best_metric);
  if (best) {
    progress.best_metric = metric;
  }
  progress.validations_without_best = best ? 0 : progress.validations_without_best + 1;
  interval_.restart_clock();
  return best;
}

// The main rank writes, all learn whether it could.
void Trainer::Loop::save(bool best) {
  note_place("save checkpoint", progress.update);
  const StateDict method = parts_.method.state(ranks_);
  std::string error;
  if (parts_.checkpoints != nullptr) {
    CheckpointNames names{.epoch = std::nullopt, .best = best};
    if (progress.update % options_.shape.updates_per_epoch == 0 && progress.update > 0) {
      names.epoch = epoch_of(progress.update);
    }
    try {
      parts_.checkpoints->save(run_state(tensor_state(run_parts(), method), progress,
                                         options_.shape, roll_back_to_, options_.checkpoint_extra),
                               names);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  const PurposeScope scope(parts_.communicator, "checkpoint outcome");
  error = broadcast_text(parts_.communicator, error);
  if (!error.empty()) {
    throw AgreedError(
        concat("the checkpoint at update ", progress.update, " could not be saved: ", error));
  }
  saved_update_ = progress.update;
}

void Trainer::Loop::finish() {
  if (!stopped_) {
    if (has_ended_early() && progress.update < options_.shape.last_update()) {
      const std::string text = concat("no better validation in the last ",
                                      progress.validations_without_best, " (validation.patience)");
      if (parts_.communicator.is_main_rank()) {
        log_info("the training ends early at update ", progress.update, ": ", text);
      }
      event("early_stop", {{"reason", text}});
    }
    event("finished");
    return;
  }
  if (saved_update_ != progress.update) {
    save(/*best=*/false);
  }
  event("preempted");
}

}  // namespace temper
