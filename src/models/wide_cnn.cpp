#include "wide_cnn.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "temper/core/error.h"

namespace temper {
namespace {

torch::nn::Conv2d same_convolution(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).padding(torch::kSame));
}

// Two wide layers with even kernels before the first pooling, then an ordinary block; global
// average pooling makes it fit any image size.
class WideCnn final : public Classifier {
 public:
  explicit WideCnn(const ArchitectureOptions& options)
      : Classifier(options.normalization),
        conv1_(register_module("conv1", same_convolution(options.channels, 264, 4))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(264))),
        conv2_(register_module("conv2", same_convolution(264, 128, 4))),
        bn2_(register_module("bn2", std::make_shared<BatchNorm>(128))),
        dropout1_(register_module("dropout1", std::make_shared<Dropout>(0.2))),
        conv3_(register_module("conv3", same_convolution(128, 256, 3))),
        bn3_(register_module("bn3", std::make_shared<BatchNorm>(256))),
        dropout2_(register_module("dropout2", std::make_shared<Dropout>(0.2))),
        fc_(register_module("fc", torch::nn::Linear(256, options.classes))) {}

 private:
  at::Tensor logits(const at::Tensor& normalized) override {
    at::Tensor x = bn1_->forward(conv1_->forward(normalized)).relu_();
    x = bn2_->forward(conv2_->forward(x)).relu_();
    x = dropout1_->forward(at::max_pool2d(x, 2));
    x = bn3_->forward(conv3_->forward(x)).relu_();
    x = dropout2_->forward(at::max_pool2d(x, 2));
    return fc_->forward(x.mean({2, 3}));
  }

  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  std::shared_ptr<Dropout> dropout1_;
  torch::nn::Conv2d conv3_;
  std::shared_ptr<BatchNorm> bn3_;
  std::shared_ptr<Dropout> dropout2_;
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<Classifier> make_wide_cnn(const ArchitectureOptions& options) {
  constexpr std::int64_t kLeastSize = 4;  // two poolings
  if (options.image_size < kLeastSize) {
    throw ConfigError(concat("architecture wide_cnn takes images from ", kLeastSize, "x",
                             kLeastSize, " on, data.image_size is ", options.image_size));
  }
  return std::make_shared<WideCnn>(options);
}

}  // namespace temper
