#pragma once
// Weights under the names that other code gives them.

#include <cstddef>
#include <optional>
#include <string>

#include "temper/core/state_dict.h"
#include "temper/models/classifier.h"

namespace temper {

struct AdoptedWeights {
  StateDict weights{};     // by the model's names, as far as they are known; the tensors are shared
  std::string names{};     // whose names the file has, for people; empty: the model's own
  std::string prefix{};    // that was taken off all names, such as "model."
  std::size_t unused = 0;  // tensors of TRADES' sub_block1, which no forward uses, left out
  std::optional<Normalization> normalization{};  // which the file brings along as tensors
};

// Translates the names of `file` into those of `model`:
// - prefixes that wrappers have left on all names (module., _orig_mod., model., 0. and 1.);
// - mean and std, or mu and sigma, of an input normalisation, which are taken out;
// - for wide ResNets sub_block1, which TRADES' constructor makes and its forward leaves out;
// - for wide ResNets in DeepMind's form the names of that code, which RobustBench has, too:
//   init_conv, layer.I.block.J.batchnorm_0, ..., batchnorm, logits.
// Whose names they are shows in the names alone. Other names stay as they are, for load_state_dict
// to judge. ConfigError when the file is of a known net that computes something else than the
// model. `source` names the file.
[[nodiscard]] AdoptedWeights adopt_weights(const StateDict& file, const Classifier& model,
                                           const std::string& source);

}  // namespace temper
