#pragma once
// What the launcher and each rank check alike before a training run starts.

#include "recipe/data_sets.h"
#include "recipe/resume_rules.h"
#include "temper/recipe/training_run.h"

namespace temper {

// Without the number of compute threads.
[[nodiscard]] ResumeKey resume_key(const TrainingRun& run, const DataSets& data, int world_size);

// ConfigError when the configuration needs one process and there are more.
void require_one_process_for_reference(const Config& config, int world_size);

// ConfigError when the first image of a data set has another size after its transform than the
// model takes. An image that cannot be read is passed over.
void check_image_sizes(const DataSets& data, const Config& config);

}  // namespace temper
