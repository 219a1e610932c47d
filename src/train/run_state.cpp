#include "train/run_state.h"

#include <ATen/ops/clone.h>

#include <cmath>
#include <limits>

#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"
#include "temper/models/model_state.h"
#include "temper/train/checkpoint_entries.h"

namespace temper {
namespace {

ValueDict progress_dict(const Progress& progress, const RunShape& shape) {
  ValueDict dict;
  dict["update"] = progress.update;
  dict["samples"] = progress.samples;
  dict["epoch"] = progress.update / shape.updates_per_epoch;
  dict["update_in_epoch"] = progress.update % shape.updates_per_epoch;
  dict["updates_per_epoch"] = shape.updates_per_epoch;
  dict["samples_per_epoch"] = shape.samples_per_epoch;
  dict["global_batch_size"] = shape.global_batch_size;
  dict["skipped_in_a_row"] = progress.skipped_in_a_row;
  dict["validated_update"] = progress.validated_update;
  dict["best_metric"] = progress.best_metric;
  dict["extra_batch_size"] = shape.extra_batch_size;
  dict["updates_per_batch"] = shape.updates_per_batch;
  dict["validations_without_best"] = progress.validations_without_best;
  dict["checked_update"] = progress.checked_update;
  if (!std::isnan(progress.checked_accuracy)) {
    dict["checked_accuracy"] = progress.checked_accuracy;
  }
  return dict;
}

void restore_average(const ValueDict& state, WeightAverage& average, Classifier& model) {
  if (state.at("average").is_null()) {
    average.load(state_dict(model), 0);
    return;
  }
  average.load(to_state_dict(state.at("average").as_dict()),
               state.at("average_updates").as_double());
}

// Entries that checkpoints of earlier versions lack.
std::int64_t int_or(const ValueDict& dict, const char* key, std::int64_t absent) {
  const Value* found = dict.find(key);
  return found == nullptr ? absent : found->as_int();
}

Progress read_progress(const ValueDict& saved) {
  return {.update = saved.at("update").as_int(),
          .samples = saved.at("samples").as_int(),
          .skipped_in_a_row = saved.at("skipped_in_a_row").as_int(),
          .validated_update = saved.at("validated_update").as_int(),
          .best_metric = saved.at("best_metric").as_double(),
          .validations_without_best = int_or(saved, "validations_without_best", 0),
          .checked_update = int_or(saved, "checked_update", 0),
          .checked_accuracy = saved.find("checked_accuracy") == nullptr
                                  ? std::numeric_limits<double>::quiet_NaN()
                                  : saved.at("checked_accuracy").as_double()};
}

}  // namespace

ValueDict tensor_state(const RunParts& parts, const StateDict& method) {
  ValueDict dict;
  dict["model"] = to_dict(state_dict(parts.model));
  dict["average"] = parts.average != nullptr ? Value(to_dict(parts.average->tensors())) : Value();
  dict["average_updates"] = parts.average != nullptr ? parts.average->updates() : 0;
  dict["optimizer"] = to_dict(parts.optimizer.state());
  dict["method"] = to_dict(method);
  return dict;
}

void restore_tensors(const ValueDict& state, const RunParts& parts) {
  load_state_dict(parts.model, to_state_dict(state.at("model").as_dict()), "the checkpoint");
  if (parts.average != nullptr) {
    restore_average(state, *parts.average, parts.model);
  }
  parts.optimizer.load_state(to_state_dict(state.at("optimizer").as_dict()));
  parts.method.load_state(to_state_dict(state.at("method").as_dict()));
}

ValueDict copy_of(const ValueDict& state) {
  ValueDict copy;
  for (const auto& [key, value] : state) {
    if (value.holds<ValueDict>()) {
      copy[key] = copy_of(value.as_dict());
    } else {
      copy[key] = value.holds<at::Tensor>() ? Value(value.as_tensor().detach().clone()) : value;
    }
  }
  return copy;
}

Value run_state(ValueDict tensors, const Progress& progress, const RunShape& shape,
                const ValueDict& roll_back_to, const ValueDict& extra) {
  ValueDict dict;
  dict["format_version"] = kCheckpointFormatVersion;
  for (const auto& [key, value] : tensors) {
    dict[key] = value;
  }
  dict["schedule"] = ValueDict();
  dict["progress"] = progress_dict(progress, shape);
  if (!roll_back_to.empty()) {
    dict["roll_back_to"] = roll_back_to;
  }
  for (const auto& [key, value] : extra) {
    dict[key] = value;
  }
  return dict;
}

void check_run_state(const std::string& source, const ValueDict& checkpoint) {
  const std::int64_t version = checkpoint.at("format_version").as_int();
  if (version != kCheckpointFormatVersion) {
    throw ConfigError(concat(source, " has format version ", version,
                             ", this program reads version ", kCheckpointFormatVersion));
  }
  for (const std::string name : {"model", "optimizer", "method"}) {
    static_cast<void>(to_state_dict(checkpoint.at(name).as_dict()));
  }
  const ValueDict& saved = checkpoint.at("progress").as_dict();
  static_cast<void>(read_progress(saved));
  for (const std::string name :
       {"updates_per_epoch", "samples_per_epoch", "global_batch_size", "updates_per_batch"}) {
    if (int_or(saved, name.c_str(), name == "updates_per_batch" ? 1 : 0) < 1) {
      throw DataError(concat("the entry 'progress/", name, "' is not positive"));
    }
  }
  if (int_or(saved, "extra_batch_size", 0) < 0 ||
      int_or(saved, "extra_batch_size", 0) >= saved.at("global_batch_size").as_int()) {
    throw DataError("the entry 'progress/extra_batch_size' is not a part of the batch");
  }
  if (!checkpoint.at("average").is_null()) {
    static_cast<void>(to_state_dict(checkpoint.at("average").as_dict()));
    static_cast<void>(checkpoint.at("average_updates").as_double());
  }
}

RestoredRun restore_run_state(const Value& checkpoint, const RunParts& parts,
                              const RunShape& shape) {
  const ValueDict& dict = checkpoint.as_dict();
  check_run_state("the checkpoint", dict);
  restore_tensors(dict, parts);
  const ValueDict& saved = dict.at("progress").as_dict();
  const RunShape from{.updates_per_epoch = saved.at("updates_per_epoch").as_int(),
                      .samples_per_epoch = saved.at("samples_per_epoch").as_int(),
                      .global_batch_size = saved.at("global_batch_size").as_int(),
                      .extra_batch_size = int_or(saved, "extra_batch_size", 0),
                      .updates_per_batch = int_or(saved, "updates_per_batch", 1)};
  const Value* earlier = dict.find("roll_back_to");
  return {.progress = convert_progress(read_progress(saved), from, shape),
          .roll_back_to = earlier != nullptr ? copy_of(earlier->as_dict()) : ValueDict()};
}

}  // namespace temper
