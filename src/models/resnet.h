#pragma once
// ResNets of He et al., "Deep residual learning for image recognition" (2016), with torchvision's
// names and shapes.

#include <array>
#include <memory>

#include "temper/models/architectures.h"

namespace temper {

struct ResNetShape {
  std::array<int, 4> blocks;
  bool bottleneck;
};

[[nodiscard]] std::shared_ptr<Classifier> make_resnet(const ResNetShape& shape,
                                                      const ArchitectureOptions& options);

}  // namespace temper
