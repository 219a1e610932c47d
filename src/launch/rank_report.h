#pragma once
// The files of a failed rank; see temper/launch/rank_files.h.

#include <string>
#include <string_view>

#include "launch/failure_report.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/worker.h"

namespace temper {

// Called while the failure's exception is handled. Never throws.
void write_rank_report(const Beat& beat, FailureCategory category,
                       std::string_view message) noexcept;

// Of another rank, on `host`, that this one has found to hang: it cannot speak for itself.
void write_hang_report(const RankEnd& blamed, const std::string& host) noexcept;

}  // namespace temper
