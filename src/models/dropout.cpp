#include "temper/models/dropout.h"

#include <ATen/ATen.h>

#include "temper/core/error.h"
#include "temper/core/random_tensor.h"

namespace temper {

Dropout::Dropout(double probability) : torch::nn::Module("Dropout"), probability_(probability) {
  require(probability >= 0 && probability < 1, "a dropout probability of ", probability);
}

void Dropout::set_keys(const RandomKeys& keys, std::uint8_t layer, std::uint16_t step) {
  stream_ = {.seed = keys.seed,
             .purpose = Purpose::kDropout,
             .layer = layer,
             .step = step,
             .index = keys.update};
  samples_ = keys.samples;
}

at::Tensor Dropout::forward(const at::Tensor& input) {
  if (mode_ == StatisticsMode::kRunning || probability_ == 0) {
    return input;
  }
  require(samples_.defined() && samples_.numel() == input.size(0),
          "dropout needs the indices of the batch's samples: Classifier::set_random_keys");
  const at::Tensor uniform =
      uniform_tensor(stream_, samples_, input.sizes().slice(1), input.options());
  return input * uniform.ge(probability_).to(input.scalar_type()).div_(1 - probability_);
}

}  // namespace temper
