#pragma once
// From the configuration to the options of the loop.

#include "recipe/data_sets.h"
#include "recipe/rank_runtime.h"
#include "recipe/resume_rules.h"
#include "temper/train/trainer.h"

namespace temper {

[[nodiscard]] TrainerOptions trainer_options(const Config& config, const RunShape& shape,
                                             const RankRuntime& runtime, const ResumeKey& key,
                                             const DataSets& data);

}  // namespace temper
