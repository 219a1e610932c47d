#include "methods/forward.h"

#include <ATen/ATen.h>

namespace temper {

at::Tensor forward(Classifier& model, const at::Tensor& images, StatisticsMode mode) {
  const StatisticsModeGuard guard(model, mode);
  return model.forward(images);
}

at::Tensor predict(const at::Tensor& logits) {
  return logits.size(0) == 0 ? at::zeros({0}, logits.options().dtype(at::kLong))
                             : logits.detach().argmax(1);
}

}  // namespace temper
