#pragma once
// The files of a failed rank; see temper/launch/rank_files.h.

#include <string_view>

#include "temper/launch/heartbeat.h"
#include "temper/launch/worker.h"

namespace temper {

// Called while the failure's exception is handled. Never throws.
void write_rank_report(const Beat& beat, FailureCategory category,
                       std::string_view message) noexcept;

}  // namespace temper
