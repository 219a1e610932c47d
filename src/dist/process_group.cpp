#include "dist/process_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "dist/collective_checker.h"
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

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const CommunicatorOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world_size, gloo);
}

// What sees each collective of the group; null: nobody.
std::shared_ptr<CollectiveObserver> make_observer(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const CommunicatorOptions& options) {
  if (!options.check_collectives) {
    return options.observer;
  }
  const auto own = c10::make_intrusive<c10d::PrefixStore>("check", store);
  return std::make_shared<CollectiveChecker>(own, make_gloo(own, options), options.timeout,
                                             options.observer);
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
    note_end();
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
    note_end();
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
        c10::make_intrusive<c10d::PrefixStore>(options.name, store->handle().store);
    auto group =
        c10::make_intrusive<c10d::ProcessGroup>(prefixed, options.rank, options.world_size);
    const bool nccl = options.backend == Backend::kNccl;
    const auto purpose = std::make_shared<CollectivePurpose>();
    const auto sequence = std::make_shared<ObservedSequence>(
        purpose, make_observer(prefixed, options), options.progress);
    const auto observed = [&](c10::intrusive_ptr<c10d::Backend> backend) {
      return c10::make_intrusive<ObservedBackend>(std::move(backend), sequence);
    };
    if (nccl) {
      group->setBackend(at::kCUDA, BackendType::NCCL,
                        observed(make_nccl(*group, prefixed, options)));
    }
    group->setBackend(
        at::kCPU, BackendType::GLOO,
        observed(make_gloo(c10::make_intrusive<c10d::PrefixStore>("cpu", prefixed), options)));
    group->setDefaultBackend(nccl ? BackendType::NCCL : BackendType::GLOO);
    group->setGroupName(options.name);
    group->setGroupDesc(options.name);
    communicator = std::make_unique<ProcessGroupCommunicator>(std::move(group), purpose, sequence,
                                                              options.progress);
    // Gloo connects lazily and then ignores the time-out: connect now.
    const PurposeScope scope(*communicator, "connecting");
    at::Tensor probe = at::zeros({1});
    communicator->all_reduce_sum(probe);
  });
  return communicator;
}

std::string broadcast_text(Communicator& communicator, const std::string& text, int root) {
  at::Tensor size = at::empty({1}, at::kLong).fill_(static_cast<std::int64_t>(text.size()));
  communicator.broadcast(size, root);
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (communicator.rank() == root) {
    std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<std::uint8_t>());
  }
  if (bytes.numel() > 0) {
    communicator.broadcast(bytes, root);
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
