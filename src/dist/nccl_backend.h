#pragma once
// NCCL for a process group; a stub that throws ConfigError stands in for it in a CPU
// build.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "temper/dist/communicator.h"

namespace temper {

// Binds the group to the rank's GPU, too.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl(
    c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
    const CommunicatorOptions& options);

}  // namespace temper
