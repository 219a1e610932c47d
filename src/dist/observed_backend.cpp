#include "dist/observed_backend.h"

#include <c10/core/ScalarType.h>

namespace temper {
namespace {

std::string dtype_name(const std::vector<at::Tensor>& tensors) {
  return tensors.empty() ? "" : c10::getDtypeNames(tensors.front().scalar_type()).first;
}

const char* all_reduce_name(const c10d::ReduceOp& operation) {
  if (operation == c10d::ReduceOp::SUM) {
    return "all_reduce_sum";
  }
  return operation == c10d::ReduceOp::MAX ? "all_reduce_max" : "all_reduce";
}

}  // namespace

void ObservedSequence::show(const char* operation, const std::vector<at::Tensor>& tensors) {
  CollectiveRecord record{.operation = operation, .dtype = dtype_name(tensors)};
  for (const at::Tensor& tensor : tensors) {
    record.numel += tensor.numel();
  }
  const std::scoped_lock lock(mutex_);
  record.sequence = next_++;
  observer_->before_collective(record);
}

c10::intrusive_ptr<c10d::Work> ObservedBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                          const c10d::AllreduceOptions& options) {
  sequence_->show(all_reduce_name(options.reduceOp), tensors);
  return backend_->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> ObservedBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                          const c10d::BroadcastOptions& options) {
  sequence_->show("broadcast", tensors);
  return backend_->broadcast(tensors, options);
}

c10::intrusive_ptr<c10d::Work> ObservedBackend::allgather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  sequence_->show("all_gather", inputs);
  return backend_->allgather(outputs, inputs, options);
}

void ObservedBackend::setGroupUid(const std::string& uid) {
  c10d::Backend::setGroupUid(uid);
  backend_->setGroupUid(uid);
}

}  // namespace temper
