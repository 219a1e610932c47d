#pragma once
// The communicator over c10d.

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <type_traits>
#include <typeinfo>

#include "dist/observed_backend.h"
#include "temper/dist/communicator.h"

namespace temper {

class ProcessGroupCommunicator final : public Communicator {
 public:
  // `progress` may be null.
  ProcessGroupCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
                           std::shared_ptr<CollectivePurpose> purpose,
                           std::shared_ptr<const ObservedSequence> sequence,
                           CollectiveProgress* progress)
      : group_(std::move(group)), sequence_(std::move(sequence)), progress_(progress) {
    purpose_ = std::move(purpose);
  }
  ~ProcessGroupCommunicator() override;

  [[nodiscard]] int rank() const override { return group_->getRank(); }
  [[nodiscard]] int world_size() const override { return group_->getSize(); }
  void all_reduce_sum(at::Tensor& tensor) override;
  void all_reduce_max(at::Tensor& tensor) override;
  void broadcast(at::Tensor& tensor, int root) override;
  [[nodiscard]] std::int64_t collectives_begun() const override { return sequence_->begun(); }

  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }
  // To be called when the rank no longer waits for any collective.
  void note_end() {
    if (progress_ != nullptr) {
      progress_->end_all();
    }
  }

 private:
  void all_reduce(at::Tensor& tensor, c10d::ReduceOp operation);

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<const ObservedSequence> sequence_;
  CollectiveProgress* progress_;
};

// Gloo and NCCL throw types of their own; anything else is not about the connection.
[[nodiscard]] bool is_communication_error(const std::exception& error);
[[noreturn]] void throw_lost_peer(const char* what, const std::exception& error);

// Runs `function`, turning the exceptions of Gloo and NCCL into LostPeerError.
template <typename Function>
void guard_communication(const char* what, const Function& function) {
  try {
    function();
  } catch (const std::exception& error) {
    if (is_communication_error(error)) {
      throw_lost_peer(what, error);
    }
    throw;
  }
}

}  // namespace temper
