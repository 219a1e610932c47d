#pragma once
// Residual nets with batch norm and activation before each convolution: pre-activation ResNets (He
// et al., "Identity mappings in deep residual networks", 2016) and wide ResNets (Zagoruyko and
// Komodakis, "Wide residual networks", 2016), for 32x32 images; a mean over all places before the
// last layer lets them take other sizes.

#include <cstdint>
#include <memory>
#include <optional>

#include "temper/models/architectures.h"

namespace temper {

// The code whose names and details a net has.
enum class PreActivationForm {
  // robust_overfitting and AWP. A projection takes what comes out of the block's first activation;
  // fast_adversarial's blocks, with the same names, project the block's input.
  kPreActResNet,
  kTradesWideResNet,  // TRADES, AWP, MART
  // Gowal et al., "Uncovering the limits of adversarial training against norm-bounded adversarial
  // examples" (2020): SiLU, SAME padding, slower running statistics. Names are those of TRADES.
  kDeepMindWideResNet,
};

struct WideResNetShape {
  std::int64_t depth = 28;  // 6 n + 4: three stages of n blocks with two convolutions each
  std::int64_t width = 10;  // the stages have 16, 32 and 64 times as many channels
  PreActivationForm form = PreActivationForm::kTradesWideResNet;
};

[[nodiscard]] std::shared_ptr<Classifier> make_wide_resnet(const WideResNetShape& shape,
                                                           const ArchitectureOptions& options);
[[nodiscard]] std::shared_ptr<Classifier> make_preact_resnet18(const ArchitectureOptions& options);

// Nothing for other models.
[[nodiscard]] std::optional<PreActivationForm> pre_activation_form(const torch::nn::Module& model);

}  // namespace temper
