#include "temper/models/architectures.h"

#include "resnet.h"
#include "small_cnn.h"
#include "wide_cnn.h"

namespace temper {
namespace {

Catalog<Classifier, ArchitectureOptions>::Factory resnet(const ResNetShape& shape) {
  return [shape](const ArchitectureOptions& options) { return make_resnet(shape, options); };
}

}  // namespace

Catalog<Classifier, ArchitectureOptions> built_in_architectures() {
  Catalog<Classifier, ArchitectureOptions> architectures("architecture");
  architectures.add("resnet18", resnet({.blocks = {2, 2, 2, 2}, .bottleneck = false}));
  architectures.add("resnet34", resnet({.blocks = {3, 4, 6, 3}, .bottleneck = false}));
  architectures.add("resnet50", resnet({.blocks = {3, 4, 6, 3}, .bottleneck = true}));
  architectures.add("digits_cnn", make_digits_cnn);
  architectures.add("mnist_cnn", make_mnist_cnn);
  architectures.add("small_cnn", make_small_cnn);
  architectures.add("wide_cnn", make_wide_cnn);
  return architectures;
}

}  // namespace temper
