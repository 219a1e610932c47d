#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "temper/core/error.h"
#include "temper/core/log.h"
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
  bool best = false;
  const bool validation_due =
      last || options_.shape.is_due(options_.validate_every, progress.update);
  if (parts_.validate && !options_.validate_every.is_zero() && validation_due &&
      progress.validated_update != progress.update) {
    best = validate();
  }
  const bool asked = std::exchange(save_requested_, false);
  if (!stopped_ && saved_update_ != progress.update &&
      (last || best || asked ||
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

// Whether the result is the best one so far.
bool Trainer::Loop::validate() {
  note_place("validation", progress.update);
  const EvaluationResult result = parts_.validate();
  if (!result.complete) {
    // All ranks know that one was stopped; now they agree on the reason.
    summary_.begin();
    summary_.reduce(own_stop_request(), false, 0, clock_.take(), 0, statistics_);
    stop_ = stop_reason_of(summary_.values().cpu().const_data_ptr<double>());
    stopped_ = true;
    require(stop_ != StopReason::kFinished, "a validation was cut short without a stop request");
    return false;
  }
  ValidationRecord record = validation_record(result, epoch_of(progress.update), progress.update);
  record.average = parts_.average != nullptr;
  parts_.sink.write(record);
  progress.validated_update = progress.update;
  const bool robust =
      options_.best.kind == BestMetric::Kind::kRobustAccuracy && !result.attacks.empty();
  const double metric =
      result.accuracy(robust ? result.attacks.front().robust_correct : result.clean_correct);
  const bool best = std::isnan(progress.best_metric) ||
                    (options_.best.larger_is_better ? metric > progress.best_metric
                                                    : metric < progress.best_metric);
  if (best) {
    progress.best_metric = metric;
  }
  interval_.restart_clock();
  return best;
}

// The main rank writes, all learn whether it could.
void Trainer::Loop::save(bool best) {
  note_place("save checkpoint", progress.update);
  std::string error;
  if (parts_.checkpoints != nullptr) {
    CheckpointNames names{.epoch = std::nullopt, .best = best};
    if (progress.update % options_.shape.updates_per_epoch == 0 && progress.update > 0) {
      names.epoch = epoch_of(progress.update);
    }
    try {
      parts_.checkpoints->save(
          run_state(run_parts(), progress, options_.shape, options_.checkpoint_extra), names);
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
    event("finished");
    return;
  }
  if (saved_update_ != progress.update) {
    save(/*best=*/false);
  }
  event("preempted");
}

}  // namespace temper
