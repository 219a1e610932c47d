#pragma once
// From the signal that asks a run to stop to the exit status of the contract.

#include <string_view>

#include "temper/launch/worker.h"
#include "temper/train/trainer.h"

namespace temper {

[[nodiscard]] StopReason stop_reason(StopRequest request);
// The signal's name; "nobody" for none.
[[nodiscard]] std::string_view request_name(StopRequest request);
[[nodiscard]] int exit_status(StopReason reason);

}  // namespace temper
