#pragma once
// Wider nets without residual connections.

#include <memory>

#include "temper/models/architectures.h"

namespace temper {

[[nodiscard]] std::shared_ptr<Classifier> make_wide_cnn(const ArchitectureOptions& options);

}  // namespace temper
