#pragma once
// Tiny nets for 3x8x8 images and ten classes: the two of the reference numbers, and two more.

#include <memory>
#include <string>

#include "temper/models/classifier.h"

namespace temper::testing_support {

// "cnn": conv 3->8, batch norm, ReLU, conv 8->16 stride 2, batch norm, ReLU, mean over pixels,
// linear 16->10. "mlpbn": linear 192->32, batch norm, ReLU, linear 32->10.
// "dropout": with dropout after a convolution and after a linear layer. "dead": constant logits.
[[nodiscard]] std::shared_ptr<Classifier> make_reference_net(const std::string& name);

}  // namespace temper::testing_support
