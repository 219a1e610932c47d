#pragma once
// Training on clean images.

#include "temper/methods/method_options.h"
#include "temper/methods/training_method.h"

namespace temper {

// Cross entropy on clean images.
class StandardTraining final : public TrainingMethod {
 public:
  explicit StandardTraining(const MethodOptions& options) : options_(options) {}
  StepOutput compute_gradients(StepContext& context, const ImageBatch& batch) override;

 private:
  MethodOptions options_;
};

}  // namespace temper
