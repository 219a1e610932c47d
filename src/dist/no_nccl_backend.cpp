#include "dist/nccl_backend.h"
#include "temper/core/error.h"

namespace temper {

c10::intrusive_ptr<c10d::Backend> make_nccl(c10d::ProcessGroup& /*group*/,
                                            const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                            const CommunicatorOptions& /*options*/) {
  throw ConfigError(
      "this build has no NCCL: build the preset cuda, or set distributed.backend=gloo");
}

}  // namespace temper
