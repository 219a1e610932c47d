#pragma once
// The data sets of a training run.

#include <memory>
#include <string>

#include "temper/data/dataset.h"
#include "temper/dist/communicator.h"
#include "temper/recipe/config.h"

namespace temper {

struct DataSets {
  std::shared_ptr<const Dataset> train{};  // without what is held out, with extra data at the end
  std::uint64_t own_size = 0;              // of train without extra data
  double extra_fraction = 0;               // of a batch
  std::shared_ptr<const Dataset> validation{};   // null without data.validation and a split
  std::shared_ptr<const Dataset> overfitting{};  // training samples of the check; null without
};

// Opens and checks them; ConfigError when they have different classes.
[[nodiscard]] DataSets open_data_sets(const Config& config);

// One of train, validation, test as evaluator names them. ConfigError when the configuration has
// none.
[[nodiscard]] std::shared_ptr<const Dataset> open_split(const Config& config,
                                                        const std::string& name);

// 16 hexadecimal digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

// A hash of the index of training and validation data, as text.
[[nodiscard]] std::string fingerprint(const DataSets& data);

// A collective: throws on every rank when the ranks see different data.
void require_same_data(Communicator& communicator, const Config& config,
                       const std::string& fingerprint);

}  // namespace temper
