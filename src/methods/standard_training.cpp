#include "temper/methods/standard_training.h"

#include <ATen/ATen.h>

#include "methods/forward.h"
#include "temper/methods/robust_loss.h"

namespace temper {

StepOutput StandardTraining::compute_gradients(StepContext& context, const ImageBatch& batch) {
  context.enter_phase("forward_backward");
  context.model.set_random_keys({context.seed, context.update, batch.samples});
  const at::Tensor logits = forward(context.model, batch.images, options_.statistics.clean_forward);
  const at::Tensor loss = cross_entropy_sum(logits, batch.loss_targets(), options_.label_smoothing);
  context.backward(loss);
  const at::Tensor predictions = predict(logits);
  return {.loss = loss.detach(),
          .clean_loss = loss.detach(),
          .clean_correct = predictions.eq(batch.labels).sum(),
          .predictions = predictions,
          .clean_logits = logits.detach()};
}

}  // namespace temper
