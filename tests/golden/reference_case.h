#pragma once
// Runs one case of a reference folder with Temper and keeps every stage for comparison.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "temper/checkpoint/value.h"

namespace temper::testing_support {

// A folder with a_cases.json, a_inputs.pt, a_state0_<net>.pt and a_<case>_<net>.pt.
struct ReferenceInputs {
  at::Tensor images;  // float64 [batches, N, 3, 8, 8]
  at::Tensor labels;  // int64 [batches, N]
  ValueDict noise;    // randn, unit
  ValueDict state;    // of the net, float32
};

// Whether the method of a case exists yet.
[[nodiscard]] bool is_supported(const nlohmann::json& settings);

// Whether the case was run with the forwards of the official code, or with those of Temper's own
// order. A failed check for any other list of forwards.
[[nodiscard]] bool has_reference_order(const nlohmann::json& settings);

// Stages by the key of the reference file, e.g. "adv_last" or "grad/fc.bias". `reference_order`:
// the forwards of the official code.
[[nodiscard]] std::map<std::string, at::Tensor> run_case(const nlohmann::json& settings,
                                                         const nlohmann::json& optimizer,
                                                         const std::string& net,
                                                         const ReferenceInputs& inputs,
                                                         bool reference_order);

}  // namespace temper::testing_support
