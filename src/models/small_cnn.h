#pragma once
// Small nets for gray images with which the reference numbers were made.

#include <memory>

#include "temper/models/architectures.h"

namespace temper {

// conv 1->16 3x3, batch norm, ReLU, conv 16->32 3x3 stride 2, batch norm, ReLU, 512->32, ReLU,
// 32->classes; 1x8x8.
[[nodiscard]] std::shared_ptr<Classifier> make_digits_cnn(const ArchitectureOptions& options);

// conv 1->16 3x3 stride 2, batch norm, ReLU, conv 16->32 3x3 stride 2, batch norm, ReLU, 1568->32
// without bias, batch norm, ReLU, 32->classes; 1x28x28.
[[nodiscard]] std::shared_ptr<Classifier> make_mnist_cnn(const ArchitectureOptions& options);

// The net of TRADES for MNIST (Zhang et al., 2019), with the names of the official code: four 3x3
// convolutions of 32, 32, 64 and 64 channels, pooling after each pair, 1024->200, dropout 0.5,
// 200->200, 200->classes; 1x28x28.
[[nodiscard]] std::shared_ptr<Classifier> make_small_cnn(const ArchitectureOptions& options);

}  // namespace temper
