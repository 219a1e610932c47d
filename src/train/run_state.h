#pragma once
// The state of a run as a checkpoint's tree of values.

#include "temper/checkpoint/value.h"
#include "temper/methods/training_method.h"
#include "temper/models/classifier.h"
#include "temper/optim/optimizer.h"
#include "temper/optim/weight_average.h"
#include "temper/train/progress.h"

namespace temper {

inline constexpr int kCheckpointFormatVersion = 1;

// What a checkpoint holds of a run.
struct RunParts {
  Classifier& model;
  Optimizer& optimizer;
  TrainingMethod& method;
  WeightAverage* average = nullptr;  // null: none
};

[[nodiscard]] Value run_state(const RunParts& parts, const Progress& progress,
                              const RunShape& shape, const ValueDict& extra);

// Throws ConfigError or DataError when the checkpoint does not fit; nothing else is left
// half-restored then but the tensors of model, average and optimizer. Returns the progress in
// updates of `shape`.
[[nodiscard]] Progress restore_run_state(const Value& checkpoint, const RunParts& parts,
                                         const RunShape& shape);

}  // namespace temper
