#include "temper/dist/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>

#include "dist/process_group.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::int64_t kFirstBucketBytes = std::int64_t{1}
                                           << 20;  // small: the reduction starts early
constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

class LocalReducer final : public GradientReducer {
 public:
  void backward(const at::Tensor& loss) override { loss.backward(); }
};

// Buckets of c10d, armed for one backward pass.
class OverlappingReducer final : public GradientReducer {
 public:
  OverlappingReducer(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                     const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    std::vector<at::Tensor> tensors;
    std::unordered_map<std::size_t, std::string> names;
    for (const auto& [name, tensor] : parameters) {
      names[tensors.size()] = name;
      tensors.push_back(tensor);
    }
    c10d::verify_params_across_processes(group, tensors, {});
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(tensors, {std::numeric_limits<std::size_t>::max()},
                                                std::vector<bool>(tensors.size(), false));
    reducer_ = std::make_shared<c10d::Reducer>(
        tensors, std::vector<std::vector<std::size_t>>(buckets.rbegin(), buckets.rend()), group,
        std::vector<bool>(tensors.size(), false), kBucketBytes, /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/true, names, kFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false, std::vector<std::int64_t>{});
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    logger_->set_construction_data_and_log("Classifier", {}, -1, false, false, false);
    reducer_->set_logger(logger_);
  }

  void backward(const at::Tensor& loss) override {
    guard_communication("the reduction of gradients", [&] {
      reducer_->prepare_for_forward();
      reducer_->rebuild_buckets();  // a collective, once after the first reduced backward
      reducer_->prepare_for_backward({});
      loss.backward();
    });
  }

 private:
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

// One all-reduce after the backward pass: the oracle of the overlapping form.
class PlainReducer final : public GradientReducer {
 public:
  PlainReducer(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
               Communicator& communicator)
      : communicator_(communicator) {
    for (const auto& [name, tensor] : parameters) {
      parameters_.push_back(tensor);
    }
  }

  void backward(const at::Tensor& loss) override {
    loss.backward();
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> flat;
    for (at::Tensor& parameter : parameters_) {
      if (!parameter.grad().defined()) {
        parameter.mutable_grad() = at::zeros_like(parameter);
      }
      flat.push_back(parameter.grad().reshape(-1));
    }
    at::Tensor all = at::cat(flat);
    communicator_.all_reduce_sum(all);
    all.div_(communicator_.world_size());
    std::int64_t offset = 0;
    for (at::Tensor& parameter : parameters_) {
      parameter.grad().copy_(all.narrow(0, offset, parameter.numel()).view(parameter.sizes()));
      offset += parameter.numel();
    }
  }

 private:
  Communicator& communicator_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_gradient_reducer(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters, Communicator& communicator,
    const GradientReducerOptions& options) {
  if (communicator.world_size() == 1) {
    return std::make_unique<LocalReducer>();
  }
  auto* process_group = dynamic_cast<ProcessGroupCommunicator*>(&communicator);
  if (options.overlap && process_group != nullptr) {
    return std::make_unique<OverlappingReducer>(parameters, process_group->group());
  }
  return std::make_unique<PlainReducer>(parameters, communicator);
}

void broadcast_tensors(const std::vector<at::Tensor>& tensors, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    at::Tensor values = tensor.detach().contiguous();
    communicator.broadcast(values, 0);
    tensor.detach().copy_(values);
  }
}

}  // namespace temper
