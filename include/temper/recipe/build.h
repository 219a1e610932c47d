#pragma once
// From a configuration to objects.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "temper/attacks/catalog.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/data/dataset.h"
#include "temper/data/loader.h"
#include "temper/data/transform.h"
#include "temper/eval/evaluation.h"
#include "temper/methods/catalog.h"
#include "temper/models/architectures.h"
#include "temper/optim/optimizer.h"
#include "temper/optim/schedule.h"
#include "temper/recipe/config.h"
#include "temper/train/trainer.h"

namespace temper {

// What names in a configuration stand for. A program of one's own may add entries.
struct Catalogs {
  Catalog<Classifier, ArchitectureOptions> architectures = built_in_architectures();
  Catalog<Attack, ThreatModel, PgdOptions> attacks = built_in_attacks();
  Catalog<TrainingMethod, std::shared_ptr<const Attack>, MethodOptions> methods =
      built_in_methods();
};

// The architecture alone, as its constructor leaves it. ConfigError when it does not fit the data's
// shape.
[[nodiscard]] std::shared_ptr<Classifier> build_architecture(const Config& config,
                                                             const Catalogs& catalogs);
// Strict by name and shape, after names that other code gives are translated (adopt_weights); a
// file that is missing, damaged or does not fit is a ConfigError. Returns a line for the user when
// something was translated or left out, and whether a normalisation that the file brings along is
// the model's; else an empty text.
std::string load_weights(Classifier& model, const std::string& path,
                         WeightSet weights = WeightSet::kModel);
// The same for model.initial_weights without model.ignore_initial, whose parts stay as they are;
// one that names nothing is a ConfigError, too. Returns a line for the user: how many tensors were
// taken, and which not.
std::string load_initial_weights(Classifier& model, const ModelConfig& config);
// With parameters drawn from run.seed or read from model.initial_weights, in the placement's type
// and device, and channels-last on CUDA. `weights_line` receives what load_initial_weights
// returned.
[[nodiscard]] std::shared_ptr<Classifier> build_model(const Config& config,
                                                      const Catalogs& catalogs,
                                                      const Placement& placement,
                                                      std::string* weights_line = nullptr);
// Mean and deviation of a preset or of the lists.
[[nodiscard]] Normalization build_normalization(const NormalizationConfig& config);
// Of the same architecture and placement, to hold a weight average; its values mean nothing yet.
[[nodiscard]] std::shared_ptr<Classifier> build_average_model(const Config& config,
                                                              const Catalogs& catalogs,
                                                              const Placement& placement);
// For example pgd-20, pgd-50x10 with ten restarts, pgd-20-best.
[[nodiscard]] std::string attack_name(const AttackConfig& attack);
// For people: threat model, steps, restarts, start.
[[nodiscard]] std::string attack_settings(const Config& config, const AttackConfig& attack);
[[nodiscard]] NamedAttack build_attack(const Config& config, const AttackConfig& attack,
                                       const Catalogs& catalogs);
// Of method.overfitting_check: PGD-5 with steps of epsilon / 4 (fast_adversarial: 2/255 for 8/255).
[[nodiscard]] NamedAttack overfitting_attack(const Config& config, const Catalogs& catalogs);
// `shape`: for lengths that are given in epochs or samples.
[[nodiscard]] std::shared_ptr<TrainingMethod> build_method(const Config& config,
                                                           const Catalogs& catalogs,
                                                           const RunShape& shape);
[[nodiscard]] std::unique_ptr<Optimizer> build_optimizer(const Config& config, Classifier& model);

// ConfigError as open_dataset; with the channels and classes of the configuration.
[[nodiscard]] std::unique_ptr<Dataset> build_dataset(const Config& config,
                                                     const std::string& format,
                                                     const std::string& path);
// Of data.extra, which is there.
[[nodiscard]] std::unique_ptr<Dataset> build_extra_dataset(const Config& config);
[[nodiscard]] Transform build_transform(const Config& config, bool training);
// Without the number of threads. The loaders of training and validation share the memory limit.
[[nodiscard]] LoaderOptions loader_options(const Config& config, bool training);

// Samples of an update over all ranks.
[[nodiscard]] std::int64_t global_batch_size(const Config& config, int world_size);
// The learning rate before its schedule, scaled if schedule.reference_batch says so.
[[nodiscard]] double base_learning_rate(const Config& config, std::int64_t global_batch);
[[nodiscard]] ScheduleOptions build_schedule(const Config& config, const RunShape& shape);

}  // namespace temper
