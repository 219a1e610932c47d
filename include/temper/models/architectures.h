#pragma once
// The architectures that a configuration can name. Parameter names and shapes are those of
// torchvision for ResNets (He et al., 2016), of the robust_overfitting and AWP repositories for
// pre-activation ResNets, of TRADES for wide ResNets, and of the reference code for the small nets.

#include <cstdint>
#include <string>

#include "temper/core/catalog.h"
#include "temper/models/classifier.h"

namespace temper {

struct ArchitectureOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;
  std::int64_t image_size = 224;
  bool small_images =
      false;  // ResNets: 3x3 stem with stride 1 and without pooling, for 32x32 images
  Normalization normalization{};
};

// resnet18, resnet34, resnet50; preactresnet18; wideresnet28_10, wideresnet34_10, wideresnet70_16,
// and in the form of Gowal et al. (2020) wideresnet28_10_silu, wideresnet34_10_silu,
// wideresnet70_16_silu; wide_cnn, digits_cnn (1x8x8), mnist_cnn and small_cnn (1x28x28). A factory
// throws ConfigError when the options do not fit the architecture.
[[nodiscard]] Catalog<Classifier, ArchitectureOptions> built_in_architectures();

// Draws all parameters anew, keyed by the seed and the parameter's place in the model, from
// PyTorch's default distributions (of Conv2d and Linear: uniform within 1/sqrt(fan in); batch norm:
// one and zero). Wide ResNets start as in the code that they are from: convolutions normal with
// variance 2/fan out (He et al., "Delving deep into rectifiers", 2015), the last bias zero.
void initialize(torch::nn::Module& model, std::uint64_t seed);

}  // namespace temper
