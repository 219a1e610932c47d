#include "train/replica_check.h"

#include <ATen/ATen.h>
#include <zlib.h>

#include <algorithm>
#include <map>

#include "temper/core/text.h"

namespace temper {
namespace {

std::int64_t checksum(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().contiguous().cpu();
  return static_cast<std::int64_t>(
      ::crc32_z(0, static_cast<const Bytef*>(values.const_data_ptr()), values.nbytes()));
}

// The ranks whose value is not the one that most have; the first of several such values counts.
std::vector<std::string> outliers(const std::vector<std::int64_t>& of_ranks) {
  std::map<std::int64_t, int> votes;
  for (const std::int64_t value : of_ranks) {
    ++votes[value];
  }
  std::int64_t common = of_ranks.front();
  for (const std::int64_t value : of_ranks) {
    common = votes[value] > votes[common] ? value : common;
  }
  std::vector<std::string> ranks;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank] != common) {
      ranks.push_back(concat(rank));
    }
  }
  return ranks;
}

}  // namespace

std::string find_replica_difference(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                                    Communicator& communicator) {
  if (communicator.world_size() == 1) {
    return {};
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  at::Tensor sums = at::zeros({communicator.world_size(), count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    sums[communicator.rank()][i] = checksum(tensors[static_cast<std::size_t>(i)].second);
  }
  const PurposeScope scope(communicator, "comparison of replicas");
  communicator.all_reduce_sum(sums);
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor column = sums.select(1, i).contiguous();
    const std::int64_t* values = column.const_data_ptr<std::int64_t>();
    const auto ranks = outliers({values, values + column.numel()});
    if (!ranks.empty()) {
      return concat(tensors[static_cast<std::size_t>(i)].first, " on rank",
                    ranks.size() > 1 ? "s " : " ", join(ranks, ", "), " differs from the ",
                    communicator.world_size() - static_cast<int>(ranks.size()), " other rank",
                    communicator.world_size() - static_cast<int>(ranks.size()) > 1 ? "s" : "");
    }
  }
  return {};
}

}  // namespace temper
