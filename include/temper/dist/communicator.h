#pragma once
// Collectives among the ranks of a run. A world of one needs no branch in callers: its collectives
// return at once. Every collective must be called by all ranks in the same order with equal shapes
// and dtypes.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "temper/core/error.h"
#include "temper/dist/collective_log.h"
#include "temper/dist/collective_progress.h"
#include "temper/dist/collective_purpose.h"
#include "temper/dist/store.h"

namespace temper {

// The ranks were about to run different collectives, none of which ran. Thrown on all ranks, with
// all descriptions.
class CollectiveMismatchError : public AgreedError {
 public:
  using AgreedError::AgreedError;
};

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

  // How many collectives this rank has begun, the buckets of gradient reductions included.
  [[nodiscard]] virtual std::int64_t collectives_begun() const { return 0; }

  // What this rank works on, and what for: goes along with its next collectives.
  void set_place(std::string_view phase, std::int64_t update) {
    purpose_->set_phase(phase);
    purpose_->update = update;
  }
  [[nodiscard]] CollectivePurpose& purpose() { return *purpose_; }

 protected:
  // Shared with the backends of the process group.
  std::shared_ptr<CollectivePurpose> purpose_ = std::make_shared<CollectivePurpose>();
};

// Says what the collectives of its lifetime are for. With a number they are counted from it.
class PurposeScope {
 public:
  // `text`: a literal.
  PurposeScope(Communicator& communicator, const char* text,
               std::int64_t number = CollectivePurpose::kNoNumber)
      : purpose_(communicator.purpose()), text_(purpose_.text), number_(purpose_.number) {
    purpose_.text = text;
    purpose_.number = number;
  }
  ~PurposeScope() {
    purpose_.text = text_;
    purpose_.number = number_;
  }
  PurposeScope(const PurposeScope&) = delete;
  PurposeScope& operator=(const PurposeScope&) = delete;

 private:
  CollectivePurpose& purpose_;
  const char* text_;
  std::int64_t number_;
};

enum class Backend { kGloo, kNccl };

struct CommunicatorOptions {
  int rank = 0;
  int world_size = 1;
  Backend backend = Backend::kGloo;  // kNccl carries CUDA tensors, Gloo always carries CPU tensors
  int device_index = 0;              // of this rank's GPU, for kNccl
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::string address = "127.0.0.1";  // through which the other ranks reach this host
  // Communicators that share a store need different ones.
  std::string name = "default_pg";
  // Compare what the ranks are about to run, before each collective: one that differs throws
  // CollectiveMismatchError on all ranks, one to which a rank does not come a LostPeerError that
  // names it. Costs an exchange over Gloo a collective.
  bool check_collectives = false;
  // Sees every collective that runs; null costs nothing. A world of one has none to see.
  std::shared_ptr<CollectiveObserver> observer{};
  // Where this rank notes the collective that it enters, for supervision; must outlive the
  // communicator. Null costs nothing, else a few nanoseconds a collective.
  CollectiveProgress* progress = nullptr;
};

// Connects all ranks; a collective itself. A world of one takes no store and may be given none.
// ConfigError when the build has no NCCL.
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(const Store* store,
                                                              const CommunicatorOptions& options);

// Sends the text of the rank `root` to all ranks.
[[nodiscard]] std::string broadcast_text(Communicator& communicator, const std::string& text,
                                         int root = 0);

// Whether the condition holds on any rank: makes a rank-local outcome a decision of all ranks. A
// collective.
[[nodiscard]] bool any_rank(Communicator& communicator, bool condition);

}  // namespace temper
