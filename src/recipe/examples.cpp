#include "recipe/examples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

namespace temper {
namespace {

Pixels to_pixels(const at::Tensor& image) {
  const at::Tensor bytes =
      image.permute({1, 2, 0}).mul(255).round().to(at::kByte).cpu().contiguous();
  const std::uint8_t* data = bytes.const_data_ptr<std::uint8_t>();
  return {.width = static_cast<int>(bytes.size(1)),
          .height = static_cast<int>(bytes.size(0)),
          .channels = static_cast<int>(bytes.size(2)),
          .bytes = {data, data + bytes.numel()}};
}

}  // namespace

std::vector<AdversarialExample> make_examples(Classifier& model, const Dataset& dataset,
                                              Loader& loader, const NamedAttack& attack,
                                              const Placement& placement, std::uint64_t count) {
  const at::NoGradGuard no_grad;
  const StatisticsModeGuard mode(model, StatisticsMode::kRunning);
  std::vector<std::uint32_t> indices;
  count = std::min<std::uint64_t>(count, dataset.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    indices.push_back(static_cast<std::uint32_t>(i * dataset.size() / count));
  }
  loader.start(0, {indices});
  const ImageBatch batch = to_device(loader.next(), placement);
  const at::Tensor adversarial =
      attack.attack->perturb(model, batch.images, batch.labels,
                             {.samples = batch.samples, .purpose = Purpose::kEvaluation});
  const at::Tensor clean_guess = model.forward(batch.images).argmax(1).cpu();
  const at::Tensor adversarial_guess = model.forward(adversarial).argmax(1).cpu();
  const auto name = [&](const at::Tensor& label) {
    return std::string(dataset.class_names()[static_cast<std::size_t>(label.item<std::int64_t>())]);
  };
  std::vector<AdversarialExample> examples;
  for (std::int64_t i = 0; i < batch.labels.numel(); ++i) {
    examples.push_back({.clean = to_pixels(batch.images[i]),
                        .adversarial = to_pixels(adversarial[i]),
                        .label = name(batch.labels[i]),
                        .clean_prediction = name(clean_guess[i]),
                        .adversarial_prediction = name(adversarial_guess[i])});
  }
  return examples;
}

}  // namespace temper
