#pragma once
// Adversarial examples for the report.

#include <vector>

#include "temper/data/dataset.h"
#include "temper/eval/evaluation.h"
#include "temper/report/html.h"

namespace temper {

// `count` samples spread over the data set, attacked; on this rank alone, without a collective.
[[nodiscard]] std::vector<AdversarialExample> make_examples(Classifier& model,
                                                            const Dataset& dataset, Loader& loader,
                                                            const NamedAttack& attack,
                                                            const Placement& placement,
                                                            std::uint64_t count);

}  // namespace temper
