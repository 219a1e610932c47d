#pragma once
// Small steps that all methods take.

#include <ATen/core/Tensor.h>

#include "temper/models/classifier.h"

namespace temper {

[[nodiscard]] at::Tensor forward(Classifier& model, const at::Tensor& images, StatisticsMode mode);

// The most likely classes, int64 [N]; also of an empty batch.
[[nodiscard]] at::Tensor predict(const at::Tensor& logits);

}  // namespace temper
