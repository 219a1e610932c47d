#include "temper/models/architectures.h"

#include "pre_activation.h"
#include "resnet.h"
#include "small_cnn.h"
#include "wide_cnn.h"

namespace temper {
namespace {

Catalog<Classifier, ArchitectureOptions>::Factory resnet(const ResNetShape& shape) {
  return [shape](const ArchitectureOptions& options) { return make_resnet(shape, options); };
}

Catalog<Classifier, ArchitectureOptions>::Factory wide_resnet(const WideResNetShape& shape) {
  return [shape](const ArchitectureOptions& options) { return make_wide_resnet(shape, options); };
}

}  // namespace

Catalog<Classifier, ArchitectureOptions> built_in_architectures() {
  Catalog<Classifier, ArchitectureOptions> architectures("architecture");
  architectures.add("resnet18", resnet({.blocks = {2, 2, 2, 2}, .bottleneck = false}));
  architectures.add("resnet34", resnet({.blocks = {3, 4, 6, 3}, .bottleneck = false}));
  architectures.add("resnet50", resnet({.blocks = {3, 4, 6, 3}, .bottleneck = true}));
  architectures.add("preactresnet18", make_preact_resnet18);
  architectures.add("wideresnet28_10", wide_resnet({.depth = 28, .width = 10}));
  architectures.add("wideresnet34_10", wide_resnet({.depth = 34, .width = 10}));
  architectures.add("wideresnet70_16", wide_resnet({.depth = 70, .width = 16}));
  constexpr auto kDeepMind = PreActivationForm::kDeepMindWideResNet;
  architectures.add("wideresnet28_10_silu",
                    wide_resnet({.depth = 28, .width = 10, .form = kDeepMind}));
  architectures.add("wideresnet34_10_silu",
                    wide_resnet({.depth = 34, .width = 10, .form = kDeepMind}));
  architectures.add("wideresnet70_16_silu",
                    wide_resnet({.depth = 70, .width = 16, .form = kDeepMind}));
  architectures.add("digits_cnn", make_digits_cnn);
  architectures.add("mnist_cnn", make_mnist_cnn);
  architectures.add("small_cnn", make_small_cnn);
  architectures.add("wide_cnn", make_wide_cnn);
  return architectures;
}

}  // namespace temper
