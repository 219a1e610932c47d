#include "train/run_state.h"

#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"
#include "temper/models/model_state.h"

namespace temper {
namespace {

ValueDict progress_dict(const Progress& progress, const RunShape& shape) {
  ValueDict dict;
  dict["update"] = progress.update;
  dict["samples"] = progress.samples;
  dict["epoch"] = progress.update / shape.updates_per_epoch;
  dict["update_in_epoch"] = progress.update % shape.updates_per_epoch;
  dict["updates_per_epoch"] = shape.updates_per_epoch;
  dict["skipped_in_a_row"] = progress.skipped_in_a_row;
  dict["validated_update"] = progress.validated_update;
  dict["best_metric"] = progress.best_metric;
  return dict;
}

}  // namespace

Value run_state(const Classifier& model, const Optimizer& optimizer, const TrainingMethod& method,
                const Progress& progress, const RunShape& shape, const ValueDict& extra) {
  ValueDict dict;
  dict["format_version"] = kCheckpointFormatVersion;
  dict["model"] = to_dict(state_dict(model));
  dict["average"] = Value();
  dict["optimizer"] = to_dict(optimizer.state());
  dict["schedule"] = ValueDict();
  dict["progress"] = progress_dict(progress, shape);
  dict["method"] = to_dict(method.state());
  for (const auto& [key, value] : extra) {
    dict[key] = value;
  }
  return dict;
}

void restore_run_state(const Value& checkpoint, Classifier& model, Optimizer& optimizer,
                       TrainingMethod& method, Progress& progress) {
  const ValueDict& dict = checkpoint.as_dict();
  const std::int64_t version = dict.at("format_version").as_int();
  if (version != kCheckpointFormatVersion) {
    throw ConfigError(concat("the checkpoint has format version ", version,
                             ", this program reads version ", kCheckpointFormatVersion));
  }
  load_state_dict(model, to_state_dict(dict.at("model").as_dict()), "the checkpoint");
  optimizer.load_state(to_state_dict(dict.at("optimizer").as_dict()));
  method.load_state(to_state_dict(dict.at("method").as_dict()));
  const ValueDict& saved = dict.at("progress").as_dict();
  progress.update = saved.at("update").as_int();
  progress.samples = saved.at("samples").as_int();
  progress.skipped_in_a_row = saved.at("skipped_in_a_row").as_int();
  progress.validated_update = saved.at("validated_update").as_int();
  progress.best_metric = saved.at("best_metric").as_double();
}

}  // namespace temper
