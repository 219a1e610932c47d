#include "small_cnn.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

void require_shape(const char* name, const ArchitectureOptions& options, std::int64_t size) {
  if (options.channels != 1 || options.image_size != size) {
    throw ConfigError(concat("architecture ", name, " takes 1 channel of ", size, "x", size,
                             ", not ", options.channels, " of ", options.image_size, "x",
                             options.image_size, ": set data.channels and data.image_size"));
  }
}

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

class DigitsCnn final : public Classifier {
 public:
  explicit DigitsCnn(const ArchitectureOptions& options)
      : Classifier(options.normalization),
        conv1_(register_module("conv1", convolution(1, 16, 1))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(16))),
        conv2_(register_module("conv2", convolution(16, 32, 2))),
        bn2_(register_module("bn2", std::make_shared<BatchNorm>(32))),
        fc1_(register_module("fc1", torch::nn::Linear(512, 32))),
        fc2_(register_module("fc2", torch::nn::Linear(32, options.classes))) {}

 private:
  at::Tensor logits(const at::Tensor& normalized) override {
    at::Tensor x = bn1_->forward(conv1_->forward(normalized)).relu_();
    x = bn2_->forward(conv2_->forward(x)).relu_();
    // Channel-major order, whatever the memory format.
    return fc2_->forward(fc1_->forward(x.flatten(1)).relu_());
  }

  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
};

class MnistCnn final : public Classifier {
 public:
  explicit MnistCnn(const ArchitectureOptions& options)
      : Classifier(options.normalization),
        conv1_(register_module("conv1", convolution(1, 16, 2))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(16))),
        conv2_(register_module("conv2", convolution(16, 32, 2))),
        bn2_(register_module("bn2", std::make_shared<BatchNorm>(32))),
        fc1_(register_module("fc1",
                             torch::nn::Linear(torch::nn::LinearOptions(1568, 32).bias(false)))),
        bn3_(register_module("bn3", std::make_shared<BatchNorm>(32))),
        fc2_(register_module("fc2", torch::nn::Linear(32, options.classes))) {}

 private:
  at::Tensor logits(const at::Tensor& normalized) override {
    at::Tensor x = bn1_->forward(conv1_->forward(normalized)).relu_();
    x = bn2_->forward(conv2_->forward(x)).relu_();
    return fc2_->forward(bn3_->forward(fc1_->forward(x.flatten(1))).relu_());
  }

  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  torch::nn::Linear fc1_;
  std::shared_ptr<BatchNorm> bn3_;
  torch::nn::Linear fc2_;
};

class SmallCnn final : public Classifier {
 public:
  explicit SmallCnn(const ArchitectureOptions& options) : Classifier(options.normalization) {
    auto features = register_module("feature_extractor", std::make_shared<torch::nn::Module>());
    const std::array<std::int64_t, 5> channels{1, 32, 32, 64, 64};
    for (std::size_t i = 0; i + 1 < channels.size(); ++i) {
      convolutions_.push_back(features->register_module(
          concat("conv", i + 1),
          torch::nn::Conv2d(torch::nn::Conv2dOptions(channels[i], channels[i + 1], 3))));
    }
    auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    fc1_ = classifier->register_module("fc1", torch::nn::Linear(1024, 200));
    dropout_ = classifier->register_module("drop", std::make_shared<Dropout>(0.5));
    fc2_ = classifier->register_module("fc2", torch::nn::Linear(200, 200));
    fc3_ = classifier->register_module("fc3", torch::nn::Linear(200, options.classes));
  }

 private:
  at::Tensor logits(const at::Tensor& normalized) override {
    at::Tensor x = normalized;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      x = convolutions_[i]->forward(x).relu_();
      x = i % 2 == 1 ? at::max_pool2d(x, 2) : x;
    }
    x = dropout_->forward(fc1_->forward(x.flatten(1)).relu_());
    return fc3_->forward(fc2_->forward(x).relu_());
  }

  std::vector<torch::nn::Conv2d> convolutions_;
  torch::nn::Linear fc1_{nullptr};
  std::shared_ptr<Dropout> dropout_;
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_digits_cnn(const ArchitectureOptions& options) {
  require_shape("digits_cnn", options, 8);
  return std::make_shared<DigitsCnn>(options);
}

std::shared_ptr<Classifier> make_mnist_cnn(const ArchitectureOptions& options) {
  require_shape("mnist_cnn", options, 28);
  return std::make_shared<MnistCnn>(options);
}

std::shared_ptr<Classifier> make_small_cnn(const ArchitectureOptions& options) {
  require_shape("small_cnn", options, 28);
  return std::make_shared<SmallCnn>(options);
}

}  // namespace temper
