#pragma once
// What the methods are told by a configuration.

#include <cstdint>
#include <optional>

#include "temper/attacks/threat_model.h"
#include "temper/methods/weight_perturbation.h"
#include "temper/models/statistics_mode.h"

namespace temper {

// Batch-norm mode of each phase of a step.
struct PhaseStatistics {
  StatisticsMode attack = StatisticsMode::kRunning;
  StatisticsMode clean_forward = StatisticsMode::kUpdate;
  StatisticsMode adversarial_forward = StatisticsMode::kBatch;
};

// How Free keeps image + noise in [0, 1].
enum class NoiseClamp {
  kImage,  // clamps the sum in the graph, so that a pixel outside has no gradient: the official
           // code for ImageNet
  kNoise,  // clamps the noise after each step to what the image leaves, as fast_adversarial does;
           // the first replay of a batch may leave [0, 1]
};

struct FreeOptions {
  ThreatModel threat_model{};
  double step_size = 4.0 / 255;
  int replays = 8;
  NoiseClamp clamp = NoiseClamp::kImage;
};

struct MethodOptions {
  double beta = 6.0;              // weight of the robust term
  double label_smoothing = 0.0;   // of the clean cross entropy, without one of the adversarial
  std::uint32_t start_epoch = 0;  // trains on clean images until this epoch
  // Updates from start_epoch on in which epsilon and step size grow linearly from 0.
  double epsilon_warmup = 0;
  std::optional<WeightPerturbationOptions> weight_perturbation{};
  FreeOptions free{};  // of the method free
  // The forwards of the official code, in its order. Those of pgd_at for logging are for one
  // process.
  bool reference_order = false;
  PhaseStatistics statistics{};
};

// The part of epsilon that is used in an update: 1 after the warm-up.
[[nodiscard]] double warmed_epsilon(const MethodOptions& options, std::uint32_t update,
                                    double updates_per_epoch);

}  // namespace temper
