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

// The tensors of a run, themselves. `method`: its state, which is gathered from all ranks.
[[nodiscard]] ValueDict tensor_state(const RunParts& parts, const StateDict& method);
// Takes up such a state. Throws ConfigError when it does not fit; nothing is left half-restored
// then but the tensors of model, average and optimizer.
void restore_tensors(const ValueDict& state, const RunParts& parts);
// With copies of all tensors.
[[nodiscard]] ValueDict copy_of(const ValueDict& state);

// A whole checkpoint. `roll_back_to`: the state of an earlier time, or empty.
[[nodiscard]] Value run_state(ValueDict tensors, const Progress& progress, const RunShape& shape,
                              const ValueDict& roll_back_to, const ValueDict& extra);

struct RestoredRun {
  Progress progress{};  // in updates of the shape
  ValueDict roll_back_to{};
};
// Throws ConfigError or DataError when the checkpoint does not fit.
[[nodiscard]] RestoredRun restore_run_state(const Value& checkpoint, const RunParts& parts,
                                            const RunShape& shape);

}  // namespace temper
