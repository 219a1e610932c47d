#pragma once
// Restores named tensors in place.

#include <string_view>

#include "temper/core/state_dict.h"

namespace temper {

// Copies `saved` into `own` by name. Throws ConfigError when a name is missing, unknown or has
// another shape; `what` names the state.
void copy_state(const StateDict& own, const StateDict& saved, std::string_view what);

}  // namespace temper
