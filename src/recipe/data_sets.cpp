#include "recipe/data_sets.h"

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
  const std::string of_main_rank = broadcast_text(communicator, fingerprint);
  if (any_rank(communicator, of_main_rank != fingerprint)) {
    throw ConfigError(concat("the ranks see different data in ", config.data.train, ": index hash ",
                             fingerprint, " here, ", of_main_rank, " on rank 0"));
  }
}

}  // namespace temper
