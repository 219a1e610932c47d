// Compares Temper with numbers of the official Python code, case by case and stage by stage.
// TEMPER_REFERENCE_DIR names another folder of cases.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "golden/reference_case.h"
#include "support/compare.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/core/file.h"
#include "temper/core/text.h"

namespace temper::testing_support {
namespace {

using Json = nlohmann::json;

std::filesystem::path folder() {
  const char* given = std::getenv("TEMPER_REFERENCE_DIR");
  return given != nullptr ? std::filesystem::path(given)
                          : std::filesystem::path(TEMPER_SOURCE_DIR) / "tests/golden/part_a";
}

ValueDict read_dict(const std::filesystem::path& path) { return read_pytorch_file(path).as_dict(); }

ReferenceInputs read_inputs(const std::string& net) {
  const ValueDict inputs = read_dict(folder() / "a_inputs.pt");
  return {.images = inputs.at("images").as_tensor().to(at::kDouble),
          .labels = inputs.at("labels").as_tensor(),
          .noise = inputs,
          .state = read_dict(folder() / concat("a_state0_", net, ".pt"))};
}

// A folder that is none of the project's own, and may hold more than the runner knows.
bool is_foreign() {
  const auto own = std::filesystem::canonical(std::filesystem::path(TEMPER_SOURCE_DIR) / "tests");
  return !std::filesystem::canonical(folder()).string().starts_with(own.string() + "/");
}

// The README of the project's own folder promises more.
double tolerance() { return is_foreign() ? 1e-9 : 1e-10; }

struct Comparison {
  int stages = 0;
  std::string problems;
  std::string unknown;  // stages of a foreign folder that the runner does not keep
};

// Compares the float64 stages of a case whose key starts with one of `prefixes` (all stages when
// empty).
Comparison compare_case(const std::string& name, const std::string& net,
                        const std::map<std::string, at::Tensor>& stages,
                        const std::vector<std::string>& prefixes) {
  Comparison comparison;
  for (const auto& [key, value] : read_dict(folder() / concat("a_", name, "_", net, ".pt"))) {
    if (!key.starts_with("f64/")) {
      continue;
    }
    const std::string stage = key.substr(4);
    if (!prefixes.empty() && stage.starts_with("loss_total_")) {
      continue;  // depends on the statistics of the batches before
    }
    const bool wanted =
        prefixes.empty() || std::ranges::any_of(prefixes, [&](const std::string& prefix) {
          return stage.starts_with(prefix);
        });
    if (!wanted) {
      continue;
    }
    ++comparison.stages;
    const auto found = stages.find(stage);
    if (found == stages.end() && is_foreign()) {
      comparison.unknown += concat(" ", stage);
      --comparison.stages;
      continue;
    }
    const std::string problem = found == stages.end()
                                    ? "no such stage"
                                    : difference(found->second, value.as_tensor(), tolerance());
    if (!problem.empty()) {
      comparison.problems += concat("  ", stage, ": ", problem, "\n");
    }
  }
  return comparison;
}

class Reference : public testing::Test {
 protected:
  Reference() { at::set_num_threads(1); }  // the tensors are tiny
  Json cases = Json::parse(read_file(folder() / "a_cases.json"));
};

// Runs `work` for each case and net; an error names them and does not keep the others from running.
void for_each_case(const Json& cases,
                   const std::function<void(const std::string& name, const Json& settings,
                                            const std::string& net)>& work) {
  for (const auto& [name, settings] : cases.at("cases").items()) {
    for (const std::string net : cases.at("nets")) {
      try {
        work(name, settings, net);
      } catch (const std::exception& error) {
        ADD_FAILURE() << name << " " << net << ": " << error.what();
      }
    }
  }
}

TEST_F(Reference, EveryStageOfEveryCaseIsEqual) {
  int compared = 0;
  const OptimizerSettings optimizer = read_optimizer(cases.at("optimizer"));
  for_each_case(cases, [&](const std::string& name, const Json& json, const std::string& net) {
    const CaseSettings settings = read_case(json);
    if (is_foreign() && !settings.other_forwards.empty()) {
      std::cout << name << ": other forwards than the case lists; " << settings.other_forwards
                << '\n';
    } else {
      EXPECT_EQ(settings.other_forwards, "") << name;
    }
    const Comparison comparison =
        compare_case(name, net, run_case(settings, optimizer, net, read_inputs(net)), {});
    EXPECT_GT(comparison.stages, 0);
    EXPECT_EQ(comparison.problems, "") << name << " " << net;
    std::cout << name << " " << net << ": " << comparison.stages << " stages";
    if (!comparison.unknown.empty()) {
      std::cout << "; not compared:" << comparison.unknown;
    }
    std::cout << '\n';
    ++compared;
  });
  std::cout << compared << " cases compared\n";
  EXPECT_GT(compared, 0);
}

// The cases whose official order Temper shortens.
TEST_F(Reference, TheDefaultOrderGivesTheSameLossesAndGradientsOnTheFirstBatch) {
  int compared = 0;
  const OptimizerSettings optimizer = read_optimizer(cases.at("optimizer"));
  for_each_case(cases, [&](const std::string& name, const Json& json, const std::string& net) {
    CaseSettings settings = read_case(json);
    if (!settings.options.reference_order) {
      return;
    }
    settings.options.reference_order = false;
    const Comparison comparison =
        compare_case(name, net, run_case(settings, optimizer, net, read_inputs(net)),
                     {"loss_natural", "loss_robust", "loss_total", "logits_", "grad/", "adv_"});
    EXPECT_GT(comparison.stages, 5);
    EXPECT_EQ(comparison.problems, "") << name << " " << net;
    ++compared;
  });
  EXPECT_TRUE(compared > 0 || is_foreign());
}

// A list of other forwards is noticed.
TEST_F(Reference, ForwardsThatAreNotRunAreNamed) {
  const std::filesystem::path own =
      std::filesystem::path(TEMPER_SOURCE_DIR) / "tests/golden/part_a";
  Json trades = Json::parse(read_file(own / "a_cases.json")).at("cases").at("trades_linf");
  EXPECT_EQ(read_case(trades).other_forwards, "");
  trades.at("forwards") = {"10x(E adv, E clean)", "T adv", "T clean", "T clean"};
  EXPECT_NE(read_case(trades).other_forwards, "");
  trades.at("forwards") = {"10xE adv", "T clean", "T adv"};
  EXPECT_EQ(read_case(trades).other_forwards, "");
  EXPECT_FALSE(read_case(trades).options.reference_order);
}

}  // namespace
}  // namespace temper::testing_support
