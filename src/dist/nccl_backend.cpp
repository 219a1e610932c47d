#include "dist/nccl_backend.h"

#include <c10/cuda/CUDAFunctions.h>
#include <nccl.h>

#include <numeric>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

namespace temper {

// The options embed NCCL's own configuration struct, so header and library must be of one version.
static_assert(NCCL_VERSION_CODE == NCCL_VERSION(2, 28, 9));

c10::intrusive_ptr<c10d::Backend> make_nccl(c10d::ProcessGroup& group,
                                            const c10::intrusive_ptr<c10d::Store>& store,
                                            const CommunicatorOptions& options) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(options.device_index));
  group.setBoundDeviceId(
      at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device_index)));
  auto nccl = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/false);
  nccl->timeout = options.timeout;
  nccl->group_name = "default_pg";
  std::vector<std::uint64_t> ranks(static_cast<std::size_t>(options.world_size));
  std::iota(ranks.begin(), ranks.end(), std::uint64_t{0});
  nccl->global_ranks_in_group = ranks;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("cuda", store), options.rank, options.world_size,
      nccl);
  backend->setBoundDeviceId(group.getBoundDeviceId());
  return c10::static_intrusive_pointer_cast<c10d::Backend>(std::move(backend));
}

}  // namespace temper
