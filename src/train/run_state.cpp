#include "train/run_state.h"

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
  return dict;
}

void restore_average(const ValueDict& checkpoint, WeightAverage& average, Classifier& model) {
  if (checkpoint.at("average").is_null()) {
    average.load(state_dict(model), 0);
    return;
  }
  average.load(to_state_dict(checkpoint.at("average").as_dict()),
               checkpoint.at("progress").as_dict().at("average_updates").as_double());
}

Progress read_progress(const ValueDict& saved) {
  return {.update = saved.at("update").as_int(),
          .samples = saved.at("samples").as_int(),
          .skipped_in_a_row = saved.at("skipped_in_a_row").as_int(),
          .validated_update = saved.at("validated_update").as_int(),
          .best_metric = saved.at("best_metric").as_double()};
}

}  // namespace

Value run_state(const RunParts& parts, const Progress& progress, const RunShape& shape,
                const ValueDict& extra) {
  ValueDict dict;
  dict["format_version"] = kCheckpointFormatVersion;
  dict["model"] = to_dict(state_dict(parts.model));
  dict["average"] = parts.average != nullptr ? Value(to_dict(parts.average->tensors())) : Value();
  dict["optimizer"] = to_dict(parts.optimizer.state());
  dict["schedule"] = ValueDict();
  dict["progress"] = progress_dict(progress, shape);
  if (parts.average != nullptr) {
    dict["progress"].as_dict()["average_updates"] = parts.average->updates();
  }
  dict["method"] = to_dict(parts.method.state());
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
  for (const std::string name : {"updates_per_epoch", "samples_per_epoch", "global_batch_size"}) {
    if (saved.at(name).as_int() < 1) {
      throw DataError(concat("the entry 'progress/", name, "' is not positive"));
    }
  }
  if (!checkpoint.at("average").is_null()) {
    static_cast<void>(to_state_dict(checkpoint.at("average").as_dict()));
    static_cast<void>(saved.at("average_updates").as_double());
  }
}

Progress restore_run_state(const Value& checkpoint, const RunParts& parts, const RunShape& shape) {
  const ValueDict& dict = checkpoint.as_dict();
  check_run_state("the checkpoint", dict);
  load_state_dict(parts.model, to_state_dict(dict.at("model").as_dict()), "the checkpoint");
  if (parts.average != nullptr) {
    restore_average(dict, *parts.average, parts.model);
  }
  parts.optimizer.load_state(to_state_dict(dict.at("optimizer").as_dict()));
  parts.method.load_state(to_state_dict(dict.at("method").as_dict()));
  const ValueDict& saved = dict.at("progress").as_dict();
  return convert_progress(read_progress(saved),
                          {.updates_per_epoch = saved.at("updates_per_epoch").as_int(),
                           .samples_per_epoch = saved.at("samples_per_epoch").as_int(),
                           .global_batch_size = saved.at("global_batch_size").as_int()},
                          shape);
}

}  // namespace temper
