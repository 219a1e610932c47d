#pragma once
// What a_cases.json of a reference folder says of a case.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "temper/attacks/pgd.h"
#include "temper/methods/method_options.h"

namespace temper::testing_support {

struct CaseSettings {
  std::string method{};
  PgdOptions attack{};
  ThreatModel threat_model{};
  MethodOptions options{};   // reference_order: the forwards of the official code
  double start_scale = 0;    // of the array `start_key`
  std::string start_key{};   // empty: starts at the image itself
  std::int64_t batches = 0;  // 0: all
  // Empty when the listed forwards are those that Temper runs; else both lists.
  std::string other_forwards{};
};

struct OptimizerSettings {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
};

// A failed check for a setting that is not known: it would be compared without being applied.
[[nodiscard]] CaseSettings read_case(const nlohmann::json& settings);
[[nodiscard]] OptimizerSettings read_optimizer(const nlohmann::json& settings);

}  // namespace temper::testing_support
