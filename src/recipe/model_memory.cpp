#include "recipe/model_memory.h"

namespace temper {

ModelMemory model_memory(const Config& config, const Catalogs& catalogs) {
  const std::int64_t element = config.training.precision == "fp64" ? 8 : 4;
  ModelMemory memory;
  const auto model = build_architecture(config, catalogs);
  for (const at::Tensor& parameter : model->parameters()) {
    memory.parameter_count += parameter.numel();
  }
  for (const at::Tensor& buffer : model->buffers()) {
    memory.buffers += buffer.numel() * element;
  }
  const std::int64_t states =
      config.optimizer.name == "adamw" ? 2 : (config.optimizer.momentum != 0 ? 1 : 0);
  memory.parameters = memory.gradients = memory.parameter_count * element;
  memory.optimizer = memory.parameters * states;
  return memory;
}

}  // namespace temper
