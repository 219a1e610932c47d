#pragma once
// Compares what the ranks are about to run. The ranks tell each other the description of every
// collective over a Gloo group of its own, always with a message of the same size, so that this
// exchange itself cannot be mixed up; and leave it in the store, where the others find it when a
// rank does not come.

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "temper/dist/communicator.h"

namespace temper {

class CollectiveChecker final : public CollectiveObserver {
 public:
  // `next`, which may be null, sees each collective that passed.
  CollectiveChecker(c10::intrusive_ptr<c10d::Store> store,
                    c10::intrusive_ptr<c10d::ProcessGroupGloo> group,
                    std::chrono::milliseconds timeout, std::shared_ptr<CollectiveObserver> next);
  ~CollectiveChecker() override;

  // Returns when all ranks are about to run the same. Throws CollectiveMismatchError on all ranks
  // when they are not, and LostPeerError that names the ranks that did not come.
  void before_collective(const CollectiveRecord& record) override;

 private:
  void publish(const std::string& text);
  [[nodiscard]] std::vector<at::Tensor> exchange(const at::Tensor& message);
  [[noreturn]] void throw_missing(const CollectiveRecord& record, const std::string& text,
                                  const std::exception& error);

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<CollectiveObserver> next_;
  std::string last_;
};

}  // namespace temper
