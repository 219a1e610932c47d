#pragma once
// A backend of c10d that notes each collective, shows it to an observer and passes it on. It sits
// below the process group, so it also sees what c10d::Reducer sends on its own.

#include <atomic>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "temper/dist/collective_log.h"
#include "temper/dist/collective_progress.h"
#include "temper/dist/collective_purpose.h"

namespace temper {

// The collectives of one process group over all its backends. Observer and progress may be null.
class ObservedSequence {
 public:
  ObservedSequence(std::shared_ptr<CollectivePurpose> purpose,
                   std::shared_ptr<CollectiveObserver> observer, CollectiveProgress* progress)
      : purpose_(std::move(purpose)), observer_(std::move(observer)), progress_(progress) {}
  void show(const char* operation, const std::vector<at::Tensor>& tensors, int root = -1);
  [[nodiscard]] std::int64_t begun() const { return next_; }

 private:
  std::shared_ptr<CollectivePurpose> purpose_;
  std::shared_ptr<CollectiveObserver> observer_;
  CollectiveProgress* progress_;
  std::mutex mutex_;
  std::atomic<std::int64_t> next_ = 0;
};

// Operations that are not listed are refused by c10d::Backend, so none can pass unseen.
class ObservedBackend final : public c10d::Backend {
 public:
  ObservedBackend(c10::intrusive_ptr<c10d::Backend> backend,
                  std::shared_ptr<ObservedSequence> sequence)
      : c10d::Backend(backend->getRank(), backend->getSize()),
        backend_(std::move(backend)),
        sequence_(std::move(sequence)) {}

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;

  void setGroupUid(const std::string& uid) override;
  void setSequenceNumberForGroup() override { backend_->setSequenceNumberForGroup(); }
  std::uint64_t getSequenceNumberForGroup() override {
    return backend_->getSequenceNumberForGroup();
  }
  c10d::ErrorType getError() override { return backend_->getError(); }
  void abort() override { backend_->abort(); }
  void shutdown() override { backend_->shutdown(); }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::shared_ptr<ObservedSequence> sequence_;
};

}  // namespace temper
