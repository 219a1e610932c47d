#pragma once
// Collectives among the ranks of a run. A world of one needs no branch in callers: its collectives
// return at once. Every collective must be called by all ranks in the same order with equal shapes
// and dtypes.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>

#include "temper/dist/collective_log.h"
#include "temper/dist/store.h"

namespace temper {

class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  [[nodiscard]] bool is_main_rank() const { return rank() == 0; }

  // In place, on the tensor's device. On CUDA the call returns when the work is queued on the
  // current stream. Throws LostPeerError when a rank is gone or the time-out passes.
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;
  virtual void all_reduce_max(at::Tensor& tensor) = 0;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;
};

enum class Backend { kGloo, kNccl };

struct CommunicatorOptions {
  int rank = 0;
  int world_size = 1;
  Backend backend = Backend::kGloo;  // kNccl carries CUDA tensors, Gloo always carries CPU tensors
  int device_index = 0;              // of this rank's GPU, for kNccl
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::string address = "127.0.0.1";  // through which the other ranks reach this host
  // Sees every collective; null costs nothing. A world of one has none to see.
  std::shared_ptr<CollectiveObserver> observer{};
};

// Connects all ranks; a collective itself. A world of one takes no store and may be given none.
// ConfigError when the build has no NCCL.
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(const Store* store,
                                                              const CommunicatorOptions& options);

// Sends the main rank's text to all ranks.
[[nodiscard]] std::string broadcast_text(Communicator& communicator, const std::string& text);

// Whether the condition holds on any rank: makes a rank-local outcome a decision of all ranks. A
// collective.
[[nodiscard]] bool any_rank(Communicator& communicator, bool condition);

}  // namespace temper
