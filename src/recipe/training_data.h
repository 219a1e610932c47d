#pragma once
// What a rank reads in a training run: data sets, who trains on what, loaders, and the evaluations
// on them.

#include <memory>
#include <vector>

#include "recipe/data_sets.h"
#include "recipe/rank_runtime.h"
#include "temper/data/loader.h"
#include "temper/data/sampler.h"
#include "temper/eval/evaluation.h"

namespace temper {

// ConfigError from the sampler for a batch that cannot be made.
[[nodiscard]] SamplerOptions sampler_options(const Config& config, const DataSets& sets, int rank,
                                             int world_size);

class TrainingData {
 public:
  // Opens the data sets. Use the rest after the ranks are connected.
  TrainingData(const Config& config, RankRuntime& runtime);

  [[nodiscard]] const DataSets& sets() const { return sets_; }
  void build_loaders();

  [[nodiscard]] ShardedSampler& sampler() { return *sampler_; }
  [[nodiscard]] Loader& train_loader() { return *train_loader_; }
  [[nodiscard]] Loader& validation_loader() { return *validation_loader_; }
  [[nodiscard]] std::vector<Loader*> loaders() const;
  [[nodiscard]] bool has_validation() const { return sets_.validation != nullptr; }

  // Both are collectives.
  [[nodiscard]] EvaluationResult validate(Classifier& model,
                                          const std::vector<NamedAttack>& attacks);
  [[nodiscard]] EvaluationResult check_overfitting(Classifier& model, const NamedAttack& attack);

  // Sizes, for people.
  [[nodiscard]] std::string describe() const;

 private:
  void warn_of_held_memory() const;
  [[nodiscard]] std::unique_ptr<Loader> make_loader(const Dataset& dataset, bool training) const;
  [[nodiscard]] EvaluationResult evaluate_on(const Dataset& dataset, Loader& loader,
                                             Classifier& model,
                                             const std::vector<NamedAttack>& attacks,
                                             std::uint64_t samples);

  const Config& config_;
  RankRuntime& runtime_;
  DataSets sets_;
  std::unique_ptr<ShardedSampler> sampler_;
  std::unique_ptr<Loader> train_loader_;
  std::unique_ptr<Loader> validation_loader_;  // null without validation
  std::unique_ptr<Loader> check_loader_;       // null without a check for overfitting
};

}  // namespace temper
