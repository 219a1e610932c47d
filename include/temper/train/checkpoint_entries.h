#pragma once
// Whether a checkpoint can be one of a run.

#include <string>

#include "temper/checkpoint/value.h"

namespace temper {

// Whether it holds what `Trainer::restore` reads: DataError for a missing entry or one of another
// type, ConfigError for another format version. `source` names the checkpoint.
void check_run_state(const std::string& source, const ValueDict& checkpoint);

}  // namespace temper
