#pragma once
// How fast the ranks reduce, in about a second.

#include "recipe/machine_facts.h"
#include "temper/dist/communicator.h"
#include "temper/eval/evaluation.h"

namespace temper {

// A collective of all ranks: the sum of one number, which must be right, then timed sums of one
// number and of a large tensor on the rank's device. `ranks` and `backend` of the result are the
// caller's. Throws LostPeerError, and CheckFailure when the sum is wrong.
[[nodiscard]] AllReduceResult probe_all_reduce(Communicator& communicator,
                                               const at::Device& device);

}  // namespace temper
