#pragma once
// One rank of an evaluation, from its environment to its exit status.

#include <string>
#include <vector>

#include "temper/launch/environment.h"
#include "temper/recipe/build.h"
#include "temper/recipe/load_config.h"

namespace temper {

struct EvaluationRun {
  LoadedConfig loaded;
  RankEnvironment environment;
  std::string checkpoint;  // a Temper checkpoint, a PyTorch state dict or safetensors
  WeightSet weights = WeightSet::kModel;
  std::vector<std::string>
      attacks;        // names; empty: validation.attack; "none": clean accuracy alone
  std::string split;  // train, validation, test; empty: test if it is given, else validation
  bool json = false;
  std::optional<int> cpus;
};

// Finds the user's mistakes without starting ranks: data, attacks, a checkpoint that does not fit.
// Throws ConfigError.
void check_evaluation_inputs(const EvaluationRun& run, const Catalogs& catalogs = {});

// The main rank prints the result on standard output, as a table or as one JSON object. Returns the
// exit status.
[[nodiscard]] int run_evaluation_rank(const EvaluationRun& run, const Catalogs& catalogs = {});

}  // namespace temper
