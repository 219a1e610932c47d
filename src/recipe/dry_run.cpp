#include <functional>

#include "recipe/model_memory.h"
#include "recipe/rank_places.h"
#include "temper/core/error.h"
#include "temper/launch/cpu_share.h"
#include "temper/recipe/build.h"
#include "temper/recipe/start.h"

namespace temper {
namespace {

std::string mebibytes(std::int64_t bytes) {
  return concat(fixed(static_cast<double>(bytes) / (1 << 20), 1), " MiB");
}

using OpenData = std::function<std::unique_ptr<Dataset>(const std::string& path)>;

std::string data_line(const char* key, const std::optional<std::string>& path,
                      const OpenData& open) {
  if (!path) {
    return concat("data.", key, ": not set\n");
  }
  try {
    const auto dataset = open(*path);
    const std::size_t classes = dataset->class_names().size();
    return concat("data.", key, ": ", *path, ", ", dataset->size(), " samples",
                  classes > 0 ? concat(" in ", classes, " classes") : " without labels", "\n");
  } catch (const std::exception& error) {
    return concat("data.", key, ": not usable now: ", error.what(), "\n");
  }
}

std::string data_lines(const Config& config) {
  const DataConfig& data = config.data;
  const OpenData open = [&](const std::string& path) {
    return build_dataset(config, data.format, path);
  };
  std::string text = data_line("train", data.train, open);
  if (data.validation_split > 0) {
    text += concat("data.validation_split: ", data.validation_split,
                   " of the training samples are held out for validation\n");
  } else {
    text += data_line("validation", data.validation, open);
  }
  text += data_line("test", data.test, open);
  if (data.extra) {
    text += concat(data_line("extra", data.extra->path,
                             [&](const std::string&) { return build_extra_dataset(config); }),
                   "data.extra.fraction: ", data.extra->fraction, " of each batch\n");
  }
  return text;
}

std::string weights_line(const Config& config, const Catalogs& catalogs) {
  if (!config.model.initial_weights) {
    return "";
  }
  try {
    return load_initial_weights(*build_architecture(config, catalogs), config.model) + "\n";
  } catch (const ConfigError& error) {
    return concat("model.initial_weights: not usable now: ", error.what(), "\n");
  }
}

std::string optional_line(std::string name, std::int64_t bytes) {
  name.resize(15, ' ');
  return bytes == 0 ? "" : concat("  ", name, mebibytes(bytes), "\n");
}

std::string memory_table(const Config& config, const Catalogs& catalogs) {
  const ModelMemory memory = model_memory(config, catalogs);
  return concat("memory a rank, without activations:\n", "  parameters     ",
                mebibytes(memory.parameters), " (", memory.parameter_count, " values)\n",
                "  buffers        ", mebibytes(memory.buffers), "\n", "  gradients      ",
                mebibytes(memory.gradients), "\n", "  optimizer      ", mebibytes(memory.optimizer),
                "\n", optional_line("average", memory.average),
                optional_line("AWP, in a step", memory.weight_perturbation),
                optional_line("roll back", memory.roll_back), "  loader, most   ",
                mebibytes(static_cast<std::int64_t>(config.data.memory_limit.bytes)), "\n");
}

}  // namespace

std::string dry_run_text(const LoadedConfig& loaded, const StartOptions& options,
                         const Catalogs& catalogs) {
  const Config& config = loaded.config;
  std::string text = print_config(loaded);
  const GpuSelection gpus = selected_gpus(options);
  const int processes = count_processes(options, gpus);
  const CpuShare share = share_cpus({.budget = cpu_budget({.slurm_cpus = slurm_cpus(1)}),
                                     .ranks = processes,
                                     .gpu = !gpus.gpus.empty()},
                                    {});
  text += concat("\nplacement: ", processes, processes == 1 ? " process, " : " processes, ",
                 share.compute, " compute threads each\n",
                 placement_table(planned_places(processes, gpus)));
  const std::int64_t global_batch = global_batch_size(config, processes);
  text += concat("batch: ", global_batch, " samples an update over ", processes,
                 " processes; learning rate ", base_learning_rate(config, global_batch), "\n\n",
                 memory_table(config, catalogs), "\n");
  text += data_lines(config);
  text += weights_line(config, catalogs);
  return text;
}

}  // namespace temper
