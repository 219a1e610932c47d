#include <ATen/core/Tensor.h>

#include "recipe/rank_places.h"
#include "temper/core/cpu_budget.h"
#include "temper/core/error.h"
#include "temper/recipe/build.h"
#include "temper/recipe/start.h"

namespace temper {
namespace {

std::string mebibytes(std::uint64_t bytes) {
  return concat(fixed(static_cast<double>(bytes) / (1 << 20), 1), " MiB");
}

std::string data_line(const Config& config, const char* key,
                      const std::optional<std::string>& path) {
  if (!path) {
    return concat("data.", key, ": not set\n");
  }
  try {
    const auto dataset = build_dataset(config, *path);
    return concat("data.", key, ": ", *path, ", ", dataset->size(), " samples in ",
                  dataset->class_names().size(), " classes\n");
  } catch (const std::exception& error) {
    return concat("data.", key, ": not usable now: ", error.what(), "\n");
  }
}

std::string weights_line(const Config& config) {
  if (!config.model.initial_weights) {
    return "";
  }
  try {
    return load_initial_weights(*build_architecture(config, {}), config.model) + "\n";
  } catch (const ConfigError& error) {
    return concat("model.initial_weights: not usable now: ", error.what(), "\n");
  }
}

std::string memory_table(const Config& config) {
  const std::uint64_t element = config.training.precision == "fp64" ? 8 : 4;
  std::uint64_t parameters = 0;
  std::uint64_t buffers = 0;
  const auto model = build_architecture(config, {});
  for (const at::Tensor& parameter : model->parameters()) {
    parameters += static_cast<std::uint64_t>(parameter.numel());
  }
  for (const at::Tensor& buffer : model->buffers()) {
    buffers += static_cast<std::uint64_t>(buffer.numel());
  }
  const std::uint64_t states =
      config.optimizer.name == "adamw" ? 2 : (config.optimizer.momentum != 0 ? 1 : 0);
  return concat("memory a rank, without activations:\n", "  parameters     ",
                mebibytes(parameters * element), " (", parameters, " values)\n",
                "  buffers        ", mebibytes(buffers * element), "\n", "  gradients      ",
                mebibytes(parameters * element), "\n", "  optimizer      ",
                mebibytes(parameters * element * states), "\n", "  loader, most   ",
                mebibytes(config.data.memory_limit.bytes), "\n");
}

}  // namespace

std::string dry_run_text(const LoadedConfig& loaded, const StartOptions& options) {
  const Config& config = loaded.config;
  std::string text = print_config(loaded);
  const GpuSelection gpus = selected_gpus(options);
  const int processes = count_processes(options, gpus);
  const CpuBudget budget = cpu_budget();
  text += concat("\nplacement: ", processes, processes == 1 ? " process, " : " processes, ",
                 std::max(1, budget.cpus / processes), " compute threads each\n",
                 placement_table(planned_places(processes, gpus)));
  const std::int64_t global_batch = global_batch_size(config, processes);
  text += concat("batch: ", global_batch, " samples an update over ", processes,
                 " processes; learning rate ", base_learning_rate(config, global_batch), "\n\n",
                 memory_table(config), "\n");
  text += data_line(config, "train", config.data.train);
  text += data_line(config, "validation", config.data.validation);
  text += data_line(config, "test", config.data.test);
  text += weights_line(config);
  return text;
}

}  // namespace temper
