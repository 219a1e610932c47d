#include "recipe/data_sets.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "temper/core/error.h"
#include "temper/recipe/build.h"

namespace temper {

DataSets open_data_sets(const Config& config) {
  DataSets data{.train = build_dataset(config, config.data.train), .validation = nullptr};
  if (config.data.validation) {
    data.validation = build_dataset(config, *config.data.validation);
    // A class that only one of the two has would shift all labels after it.
    if (!std::ranges::equal(data.train->class_names(), data.validation->class_names())) {
      throw ConfigError(concat("data.validation: ", *config.data.validation,
                               " has other classes than data.train: ", config.data.train,
                               "; both need the same class folders"));
    }
  }
  return data;
}

std::string fingerprint(const DataSets& data) {
  std::uint64_t hash = data.train->fingerprint();
  if (data.validation) {
    hash = hash * 0x9E3779B97F4A7C15U + data.validation->fingerprint();
  }
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; hash >>= 4) {
    text[i] = "0123456789abcdef"[hash & 15];
  }
  return text;
}

void require_same_data(Communicator& communicator, const Config& config,
                       const std::string& fingerprint) {
  const PurposeScope scope(communicator, "index hash of the data");
  const std::string of_main_rank = broadcast_text(communicator, fingerprint);
  at::Tensor differs = at::zeros({communicator.world_size()}, at::kLong);
  differs[communicator.rank()].fill_(of_main_rank != fingerprint ? 1 : 0);
  communicator.all_reduce_sum(differs);
  std::string ranks;
  for (std::int64_t rank = 0; rank < differs.numel(); ++rank) {
    if (differs[rank].item<std::int64_t>() != 0) {
      ranks += concat(ranks.empty() ? "" : ", ", rank);
    }
  }
  if (!ranks.empty()) {
    throw ConfigError(concat("rank ", ranks, " sees other data than rank 0: data.train is ",
                             config.data.train, " here, with index hash ", fingerprint,
                             "; on rank 0 it is ", of_main_rank,
                             "; give all ranks the same files, with the same names and sizes"));
  }
}

}  // namespace temper
