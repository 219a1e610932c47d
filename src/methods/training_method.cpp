#include "temper/methods/training_method.h"

#include <algorithm>

#include "temper/core/error.h"
#include "temper/methods/method_options.h"

namespace temper {

void TrainingMethod::load_state(const StateDict& state) {
  if (!state.empty()) {
    throw ConfigError(concat("the method of this run carries no state, but the saved one has '",
                             state.front().first, "': it was saved with another method"));
  }
}

double warmed_epsilon(const MethodOptions& options, std::uint32_t update,
                      double updates_per_epoch) {
  const double since = update - options.start_epoch * updates_per_epoch;
  return options.epsilon_warmup > 0 ? std::clamp(since / options.epsilon_warmup, 0.0, 1.0) : 1;
}

}  // namespace temper
