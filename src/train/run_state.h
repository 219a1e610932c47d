#pragma once
// The state of a run as a checkpoint's tree of values.

#include "temper/checkpoint/value.h"
#include "temper/methods/training_method.h"
#include "temper/models/classifier.h"
#include "temper/optim/optimizer.h"
#include "temper/train/progress.h"

namespace temper {

inline constexpr int kCheckpointFormatVersion = 1;

[[nodiscard]] Value run_state(const Classifier& model, const Optimizer& optimizer,
                              const TrainingMethod& method, const Progress& progress,
                              const RunShape& shape, const ValueDict& extra);

// Throws ConfigError or DataError when the checkpoint does not fit; nothing else is left
// half-restored then but the tensors of model and optimizer.
void restore_run_state(const Value& checkpoint, Classifier& model, Optimizer& optimizer,
                       TrainingMethod& method, Progress& progress);

}  // namespace temper
