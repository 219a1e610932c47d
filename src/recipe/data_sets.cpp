#include "recipe/data_sets.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>

#include "temper/core/error.h"
#include "temper/data/joined.h"
#include "temper/data/subset.h"
#include "temper/recipe/build.h"

namespace temper {

namespace {

// Training data and what is held out of them, null for nothing.
DataSets open_own_data(const Config& config) {
  const DataConfig& data = config.data;
  const std::shared_ptr<const Dataset> whole = build_dataset(config, data.format, data.train);
  if (data.validation_split == 0) {
    return {.train = whole};
  }
  Parts parts = hold_out(whole->labels(), data.validation_split, config.run.seed);
  return {.train = std::make_shared<Subset>(whole, std::move(parts.rest)),
          .validation = std::make_shared<Subset>(whole, std::move(parts.chosen))};
}

std::shared_ptr<const Dataset> open_extra(const Config& config) {
  try {
    return build_extra_dataset(config);
  } catch (const ConfigError& error) {
    throw ConfigError(concat("data.extra: ", error.what()));
  }
}

}  // namespace

DataSets open_data_sets(const Config& config) {
  DataSets data = open_own_data(config);
  data.own_size = data.train->size();
  if (config.data.validation) {
    data.validation = build_dataset(config, config.data.format, *config.data.validation);
    // A class that only one of the two has would shift all labels after it.
    if (!std::ranges::equal(data.train->class_names(), data.validation->class_names())) {
      throw ConfigError(concat("data.validation: ", *config.data.validation,
                               " has other classes than data.train: ", config.data.train,
                               "; both need the same class folders"));
    }
  }
  if (const auto& check = config.method.overfitting_check) {
    Parts parts = choose_samples(data.train->labels(), static_cast<std::uint64_t>(check->samples),
                                 config.run.seed, Choice::kOverfittingCheck);
    data.overfitting = std::make_shared<Subset>(data.train, std::move(parts.chosen));
  }
  if (const auto& extra = config.data.extra) {
    data.train = std::make_shared<Joined>(data.train, open_extra(config), !extra->unlabelled);
    data.extra_fraction = extra->fraction;
  }
  return data;
}

std::shared_ptr<const Dataset> open_split(const Config& config, const std::string& name) {
  const DataConfig& data = config.data;
  if (name != "train" && name != "validation" && name != "test") {
    throw ConfigError(concat("--split ", name, ": expected train, validation or test"));
  }
  if (name == "train" || (name == "validation" && data.validation_split > 0)) {
    const DataSets own = open_own_data(config);
    return name == "train" ? own.train : own.validation;
  }
  const std::optional<std::string>& path = name == "test" ? data.test : data.validation;
  if (!path) {
    throw ConfigError(concat(
        "data.", name, " is not set: give it in the configuration or choose another --split"));
  }
  return build_dataset(config, data.format, *path);
}

std::string hash_text(std::uint64_t hash) {
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; hash >>= 4) {
    text[i] = "0123456789abcdef"[hash & 15];
  }
  return text;
}

std::string fingerprint(const DataSets& data) {
  std::uint64_t hash = data.train->fingerprint();
  if (data.validation) {
    hash = hash * 0x9E3779B97F4A7C15U + data.validation->fingerprint();
  }
  if (data.extra_fraction > 0) {  // decides about the samples of each batch
    hash = hash * 0x9E3779B97F4A7C15U + std::bit_cast<std::uint64_t>(data.extra_fraction);
  }
  return hash_text(hash);
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
