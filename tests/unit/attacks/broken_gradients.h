#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "temper/models/classifier.h"

namespace temper {

// Zero gradients for even samples, gradients that are not numbers for samples 1, 5, 9.
class BrokenGradients final : public Classifier {
 public:
  BrokenGradients() : Classifier({}) {}

 private:
  at::Tensor logits(const at::Tensor& x) override {
    const at::Tensor sums = x.flatten(1).sum(1, /*keepdim=*/true);
    const at::Tensor place = at::arange(x.size(0)).remainder(4).unsqueeze(1);
    const at::Tensor slope = at::where(place.eq(1), at::full({1, 1}, std::nan(""), at::kDouble),
                                       place.eq(3).to(at::kDouble));
    return at::cat({sums * slope, at::zeros_like(sums)}, 1);
  }
};

}  // namespace temper
