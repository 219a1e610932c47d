#include "temper/dist/agree.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "temper/core/error.h"

namespace temper {
namespace {

std::string text_of(Communicator& communicator, const std::string& text, int root) {
  at::Tensor size = at::empty({1}, at::kLong).fill_(static_cast<std::int64_t>(text.size()));
  communicator.broadcast(size, root);
  at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  if (communicator.rank() == root) {
    std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<std::uint8_t>());
  }
  communicator.broadcast(bytes, root);
  const std::uint8_t* data = bytes.const_data_ptr<std::uint8_t>();
  return {data, data + bytes.numel()};
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    texts.push_back(text_of(communicator, text, rank));
  }
  return texts;
}

void throw_if_any_failed(Communicator& communicator, const std::string& error) {
  const int world_size = communicator.world_size();
  at::Tensor failed =
      at::empty({1}, at::kLong).fill_(error.empty() ? 0 : world_size - communicator.rank());
  communicator.all_reduce_max(failed);
  if (const auto place = failed.item<std::int64_t>(); place > 0) {
    const int rank = world_size - static_cast<int>(place);
    throw AgreedError(concat("rank ", rank, ": ", text_of(communicator, error, rank)));
  }
}

}  // namespace temper
