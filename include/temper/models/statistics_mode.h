#pragma once
// How batch norm treats statistics in one forward pass. A mode, not a training flag: a step of
// adversarial training uses several of them, and each forward says which.

namespace temper {

enum class StatisticsMode {
  kUpdate,   // normalise with the batch; running statistics take the batch in at the next commit
  kBatch,    // normalise with the batch; running statistics stay as they are
  kRunning,  // normalise with the running statistics
};

}  // namespace temper
