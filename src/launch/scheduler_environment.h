#pragma once
// Ranks that Slurm or MPI have started.

#include <span>
#include <string>

#include "temper/launch/environment.h"

namespace temper {

// A step of srun with several tasks.
[[nodiscard]] bool is_slurm_task(const EnvironmentVariables& variables);
// ConfigError when the step is described in part or contradicts itself.
[[nodiscard]] RankEnvironment slurm_rank(const EnvironmentVariables& variables);
// ConfigError with the srun line when this process is in an allocation of several tasks but not in
// a step.
void require_step(const EnvironmentVariables& variables, std::span<const std::string> command);

// One of several processes of Open MPI, MPICH, Intel MPI or MVAPICH.
[[nodiscard]] bool is_mpi_process(const EnvironmentVariables& variables);
// ConfigError as above, also when master address or port are neither set nor known.
[[nodiscard]] RankEnvironment mpi_rank(const EnvironmentVariables& variables);

}  // namespace temper
