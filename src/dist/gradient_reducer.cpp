#include "temper/dist/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>

#include "dist/checksum.h"
#include "dist/process_group.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::size_t kFirstBucketBytes = std::size_t{1}
                                          << 20;  // small: the reduction starts early
constexpr std::size_t kBucketBytes = std::size_t{25} << 20;

class LocalReducer final : public GradientReducer {
 public:
  void backward(const at::Tensor& loss) override { loss.backward(); }
};

// Rounds alike in every update, the first after a start included, so that a resumed run has the
// bits of one that was not interrupted. c10d multiplies by 1 / ranks until gradients are views of
// the buckets and divides by ranks afterwards; and its rebuild of the buckets, which nothing here
// calls, would change the order of the sums. The flag keeps it from noting gradients for a rebuild,
// a list that would grow for ever.
class FixedBucketReducer final : public c10d::Reducer {
 public:
  template <typename... Arguments>
  explicit FixedBucketReducer(Arguments&&... arguments)
      : Reducer(std::forward<Arguments>(arguments)...) {
    has_rebuilt_bucket_ = true;
  }

  void arm() {
    div_factor_ = 1;  // a sum; the loss carries the divisor
    prepare_for_forward();
    prepare_for_backward({});
  }

  // A backward pass that threw before its first bucket may be followed by another one.
  void forget_backward() { require_finalize_ = false; }
};

// Parameters in reverse order, which is about the order in which their gradients become ready.
std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> reversed(parameters.rbegin(), parameters.rend());
  std::vector<std::int64_t> places;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    places.push_back(static_cast<std::int64_t>(i));
  }
  return std::get<0>(
      c10d::compute_bucket_assignment_by_size(reversed, {kFirstBucketBytes, kBucketBytes},
                                              std::vector<bool>(reversed.size(), false), places));
}

// Buckets of c10d, armed for one backward pass.
class OverlappingReducer final : public GradientReducer {
 public:
  OverlappingReducer(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                     ProcessGroupCommunicator& communicator)
      : communicator_(communicator) {
    const c10::intrusive_ptr<c10d::ProcessGroup>& group = communicator.group();
    std::vector<at::Tensor> tensors;
    std::unordered_map<std::size_t, std::string> names;
    for (const auto& [name, tensor] : parameters) {
      names[tensors.size()] = name;
      tensors.push_back(tensor);
    }
    reducer_ = std::make_shared<FixedBucketReducer>(
        tensors, assign_buckets(tensors), group, std::vector<bool>(tensors.size(), false),
        kBucketBytes, /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/true, names, kFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false, std::vector<std::int64_t>{});
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    logger_->set_construction_data_and_log("Classifier", {}, -1, false, false, false);
    reducer_->set_logger(logger_);
  }

  void backward(const at::Tensor& loss) override {
    const PurposeScope scope(communicator_, "gradient bucket", 0);
    guard_communication("the reduction of gradients", [&] {
      reducer_->arm();
      try {
        loss.backward();
      } catch (...) {
        reducer_->forget_backward();
        throw;
      }
      communicator_.note_end();
    });
  }

 private:
  ProcessGroupCommunicator& communicator_;
  std::shared_ptr<FixedBucketReducer> reducer_;
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
    const PurposeScope scope(communicator_, "gradients");
    communicator_.all_reduce_sum(all);
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

std::string describe(const std::pair<std::string, at::Tensor>& parameter) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : parameter.second.sizes()) {
    sizes.push_back(concat(size));
  }
  return concat(parameter.first, " ", c10::getDtypeNames(parameter.second.scalar_type()).first,
                " [", join(sizes, ", "), "]");
}

// Gradients are summed by their place: in another order, or of other shapes, they would be mixed up
// silently. One collective when all is well.
void require_same_parameters(const std::vector<std::pair<std::string, at::Tensor>>& parameters,
                             Communicator& communicator) {
  std::vector<std::string> own;
  for (const auto& parameter : parameters) {
    own.push_back(describe(parameter));
  }
  const std::string list = join(own, "\n");
  const PurposeScope scope(communicator, "parameters");
  at::Tensor sums = at::zeros({communicator.world_size()}, at::kLong);
  sums[communicator.rank()] = static_cast<std::int64_t>(fnv1a(list));
  communicator.all_reduce_sum(sums);
  for (int rank = 1; rank < communicator.world_size(); ++rank) {
    if (sums[rank].item<std::int64_t>() == sums[0].item<std::int64_t>()) {
      continue;
    }
    const std::vector<std::string> first = split(broadcast_text(communicator, list, 0), '\n');
    const std::vector<std::string> other = split(broadcast_text(communicator, list, rank), '\n');
    const auto place = std::ranges::mismatch(first, other);
    const auto text = [](const auto& end, const auto& at) { return at == end ? "none" : *at; };
    throw AgreedError(concat("the ranks train different parameters: parameter ",
                             place.in1 - first.begin(), " is ", text(other.end(), place.in2),
                             " on rank ", rank, " and ", text(first.end(), place.in1),
                             " on rank 0; all must run the same program and configuration"));
  }
}

}  // namespace

std::unique_ptr<GradientReducer> make_gradient_reducer(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters, Communicator& communicator,
    const GradientReducerOptions& options) {
  if (communicator.world_size() == 1) {
    return std::make_unique<LocalReducer>();
  }
  require_same_parameters(parameters, communicator);
  auto* process_group = dynamic_cast<ProcessGroupCommunicator*>(&communicator);
  if (options.overlap && process_group != nullptr) {
    return std::make_unique<OverlappingReducer>(parameters, *process_group);
  }
  return std::make_unique<PlainReducer>(parameters, communicator);
}

void broadcast_tensors(const std::vector<at::Tensor>& tensors, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  const PurposeScope scope(communicator, "weights of rank 0, tensor", 0);
  for (const at::Tensor& tensor : tensors) {
    at::Tensor values = tensor.detach().contiguous();
    communicator.broadcast(values, 0);
    tensor.detach().copy_(values);
  }
}

}  // namespace temper
