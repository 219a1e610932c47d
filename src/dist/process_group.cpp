#include "dist/process_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "dist/nccl_backend.h"
#include "dist/observed_backend.h"
#include "dist/store_handle.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using BackendType = c10d::ProcessGroup::BackendType;

class LocalCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 1; }
  void all_reduce_sum(at::Tensor& /*tensor*/) override {}
  void all_reduce_max(at::Tensor& /*tensor*/) override {}
  void broadcast(at::Tensor& /*tensor*/, int /*root*/) override {}
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const CommunicatorOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  return c10::static_intrusive_pointer_cast<c10d::Backend>(
      c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>("cpu", store), options.rank, options.world_size,
          gloo));
}

}  // namespace

bool is_communication_error(const std::exception& error) {
  const std::string_view type = typeid(error).name();
  return type.find("gloo") != std::string_view::npos ||
         dynamic_cast<const c10::DistError*>(&error) != nullptr;
}

void throw_lost_peer(const char* what, const std::exception& error) {
  const std::string_view text = error.what();
  throw LostPeerError(concat("lost another rank in ", what, ": ", text.substr(0, text.find('\n'))));
}

ProcessGroupCommunicator::~ProcessGroupCommunicator() {
  try {
    group_->shutdown();
  } catch (const std::exception&) {  // a dead connection needs no farewell
  }
}

void ProcessGroupCommunicator::all_reduce(at::Tensor& tensor, c10d::ReduceOp operation) {
  guard_communication("an all-reduce", [&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    group_->allreduce(tensors, options)->wait();
  });
}

void ProcessGroupCommunicator::all_reduce_sum(at::Tensor& tensor) {
  all_reduce(tensor, c10d::ReduceOp::SUM);
}

void ProcessGroupCommunicator::all_reduce_max(at::Tensor& tensor) {
  all_reduce(tensor, c10d::ReduceOp::MAX);
}

void ProcessGroupCommunicator::broadcast(at::Tensor& tensor, int root) {
  guard_communication("a broadcast", [&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(tensors, options)->wait();
  });
}

std::unique_ptr<Communicator> make_communicator(const Store* store,
                                                const CommunicatorOptions& options) {
  if (options.world_size == 1) {
    return std::make_unique<LocalCommunicator>();
  }
  require(store != nullptr, "a world of ", options.world_size, " ranks needs a store");
  std::unique_ptr<Communicator> communicator;
  guard_communication("connecting the ranks", [&] {
    const auto prefixed =
        c10::make_intrusive<c10d::PrefixStore>("default_pg", store->handle().store);
    auto group =
        c10::make_intrusive<c10d::ProcessGroup>(prefixed, options.rank, options.world_size);
    const bool nccl = options.backend == Backend::kNccl;
    const auto sequence =
        options.observer ? std::make_shared<ObservedSequence>(options.observer) : nullptr;
    const auto observed = [&](c10::intrusive_ptr<c10d::Backend> backend) {
      return sequence ? c10::static_intrusive_pointer_cast<c10d::Backend>(
                            c10::make_intrusive<ObservedBackend>(std::move(backend), sequence))
                      : backend;
    };
    if (nccl) {
      group->setBackend(at::kCUDA, BackendType::NCCL,
                        observed(make_nccl(*group, prefixed, options)));
    }
    group->setBackend(at::kCPU, BackendType::GLOO, observed(make_gloo(prefixed, options)));
    group->setDefaultBackend(nccl ? BackendType::NCCL : BackendType::GLOO);
    group->setGroupName("default_pg");
    group->setGroupDesc("default_pg");
    communicator = std::make_unique<ProcessGroupCommunicator>(std::move(group));
    // Gloo connects lazily and then ignores the time-out: connect now.
    at::Tensor probe = at::zeros({1});
    communicator->all_reduce_sum(probe);
  });
  return communicator;
}

std::string broadcast_text(Communicator& communicator, const std::string& text) {
  at::Tensor size = at::empty({1}, at::kLong).fill_(static_cast<std::int64_t>(text.size()));
  communicator.broadcast(size, 0);
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (communicator.is_main_rank()) {
    std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<std::uint8_t>());
  }
  if (bytes.numel() > 0) {
    communicator.broadcast(bytes, 0);
  }
  const std::uint8_t* data = bytes.const_data_ptr<std::uint8_t>();
  return {data, data + bytes.numel()};
}

bool any_rank(Communicator& communicator, bool condition) {
  at::Tensor flag = at::empty({1}, at::kLong).fill_(condition ? 1 : 0);
  communicator.all_reduce_max(flag);
  return flag.item<std::int64_t>() != 0;
}

}  // namespace temper
