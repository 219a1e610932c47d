#pragma once
// Runs one case of a reference folder with Temper and keeps every stage for comparison.

#include <map>
#include <string>

#include "golden/reference_settings.h"
#include "temper/checkpoint/value.h"

namespace temper::testing_support {

// A folder with a_cases.json, a_inputs.pt, a_state0_<net>.pt and a_<case>_<net>.pt.
struct ReferenceInputs {
  at::Tensor images;  // float64 [batches, N, 3, 8, 8]
  at::Tensor labels;  // int64 [batches, N]
  ValueDict noise;    // randn, unit
  ValueDict state;    // of the net, float32
};

// Stages by the key of the reference file, e.g. "adv_last" or "grad/fc.bias".
[[nodiscard]] std::map<std::string, at::Tensor> run_case(const CaseSettings& settings,
                                                         const OptimizerSettings& optimizer,
                                                         const std::string& net,
                                                         const ReferenceInputs& inputs);

}  // namespace temper::testing_support
