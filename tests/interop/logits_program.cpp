// Writes the logits of a ResNet for stored images: ARCHITECTURE WEIGHTS IMAGES OUT.

#include <ATen/ATen.h>

#include <algorithm>
#include <iostream>

#include "temper/checkpoint/container.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/models/architectures.h"
#include "temper/models/model_state.h"

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      std::cerr << "usage: interop_logits ARCHITECTURE WEIGHTS IMAGES OUT\n";
      return 2;
    }
    const auto weights = temper::read_state_dict(argv[2]);
    const auto last = std::ranges::find(weights, "fc.bias", &temper::StateDict::value_type::first);
    if (last == weights.end()) {
      throw std::runtime_error("no fc.bias: not a ResNet");
    }
    const std::int64_t classes = last->second.size(0);
    const auto model = temper::built_in_architectures().make(
        argv[1], temper::ArchitectureOptions{.classes = classes});
    temper::load_state_dict(*model, weights, argv[2]);
    model->set_statistics_mode(temper::StatisticsMode::kRunning);
    const at::NoGradGuard no_grad;
    const temper::Value input = temper::read_pytorch_file(argv[3]);
    const at::Tensor images = input.as_dict().at("images").as_tensor();
    temper::write_checkpoint(argv[4], temper::ValueDict{{"logits", model->forward(images)}});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
