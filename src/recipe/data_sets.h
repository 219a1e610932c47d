#pragma once
// The data sets of a training run.

#include <memory>
#include <string>

#include "temper/data/dataset.h"
#include "temper/dist/communicator.h"
#include "temper/recipe/config.h"

namespace temper {

struct DataSets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null without data.validation
};

// Opens and checks both; ConfigError when they have different classes.
[[nodiscard]] DataSets open_data_sets(const Config& config);

// A hash of the index of both, as text.
[[nodiscard]] std::string fingerprint(const DataSets& data);

// A collective: throws on every rank when the ranks see different data.
void require_same_data(Communicator& communicator, const Config& config,
                       const std::string& fingerprint);

}  // namespace temper
