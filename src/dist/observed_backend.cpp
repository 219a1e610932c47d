#include "dist/observed_backend.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <charconv>

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

// "gradient bucket 3", without an allocation.
class PurposeText {
 public:
  explicit PurposeText(const CollectivePurpose& purpose) {
    constexpr std::size_t kRoomForNumber = 20;
    const std::string_view text(purpose.text);
    size_ = std::min(text.size(), text_.size() - kRoomForNumber);
    std::copy_n(text.begin(), size_, text_.begin());
    if (purpose.number != CollectivePurpose::kNoNumber) {
      text_[size_] = ' ';
      char* const begin = text_.data() + size_ + 1;
      const auto end = std::to_chars(begin, text_.data() + text_.size(), purpose.number);
      size_ = static_cast<std::size_t>(end.ptr - text_.data());
    }
  }
  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 64> text_{};
  std::size_t size_ = 0;
};

}  // namespace

void ObservedSequence::show(const char* operation, const std::vector<at::Tensor>& tensors,
                            int root) {
  const std::string dtype = dtype_name(tensors);
  std::int64_t numel = 0;
  for (const at::Tensor& tensor : tensors) {
    numel += tensor.numel();
  }
  const std::unique_lock lock(mutex_);
  const std::int64_t sequence = next_++;
  const PurposeText purpose(*purpose_);
  if (purpose_->number != CollectivePurpose::kNoNumber) {
    ++purpose_->number;
  }
  // First: a rank whose observer waits for the others is in this collective.
  if (progress_ != nullptr) {
    progress_->begin(operation, dtype, numel, purpose.view());
  }
  if (observer_) {
    CollectiveRecord record{.sequence = sequence,
                            .operation = operation,
                            .dtype = dtype,
                            .numel = numel,
                            .root = root,
                            .purpose = std::string(purpose.view()),
                            .update = purpose_->update,
                            .phase = purpose_->phase.data()};
    if (!tensors.empty()) {
      record.shape = tensors.front().sizes().vec();
    }
    observer_->before_collective(record);
  }
}

c10::intrusive_ptr<c10d::Work> ObservedBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                          const c10d::AllreduceOptions& options) {
  sequence_->show(all_reduce_name(options.reduceOp), tensors);
  return backend_->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> ObservedBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                          const c10d::BroadcastOptions& options) {
  sequence_->show("broadcast", tensors, static_cast<int>(options.rootRank));
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
