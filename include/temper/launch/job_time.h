#pragma once
// How long the scheduler lets this job run.

#include <chrono>
#include <optional>
#include <string_view>

namespace temper {

// "1-02:03:04", "02:03:04" or "03:04", as Slurm writes a time; nullopt for any other text, such as
// UNLIMITED.
[[nodiscard]] std::optional<std::chrono::seconds> parse_slurm_time(std::string_view text);

// The time until this Slurm job ends, less what a checkpoint may need (a tenth, from 5 s to 2 min).
// Asks squeue, for at most ten seconds. nullopt, with a notice in the log, outside a job and when
// squeue knows no end.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_left_in_job();

}  // namespace temper
