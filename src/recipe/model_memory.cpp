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
  if (config.training.weight_average) {
    memory.average = memory.parameters + memory.buffers;
  }
  if (config.method.weight_perturbation) {
    // The kept weights, the perturbed ones and the directions; the last layer's bias and batch norm
    // have none and are small.
    memory.weight_perturbation = 3 * memory.parameters;
  }
  if (const auto& check = config.method.overfitting_check; check && check->action == "roll_back") {
    memory.roll_back = memory.parameters + memory.buffers + memory.optimizer + memory.average;
  }
  return memory;
}

}  // namespace temper
