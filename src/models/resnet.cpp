#include "resnet.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride, std::int64_t padding) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(false));
}

// The projection of the shortcut, registered as torchvision's Sequential(conv, norm).
class Downsample : public torch::nn::Module {
 public:
  Downsample(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv_(register_module("0", convolution(in, out, 1, stride, 0))),
        norm_(register_module("1", std::make_shared<BatchNorm>(out))) {}
  at::Tensor forward(const at::Tensor& x) { return norm_->forward(conv_->forward(x)); }

 private:
  torch::nn::Conv2d conv_;
  std::shared_ptr<BatchNorm> norm_;
};

// A residual block of two 3x3 convolutions, or of 1x1, 3x3, 1x1 with four times the width at the
// end.
class Block : public torch::nn::Module {
 public:
  Block(std::int64_t in, std::int64_t width, std::int64_t stride, bool bottleneck) {
    const std::int64_t out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      add(convolution(in, width, 1, 1, 0), width);
      add(convolution(width, width, 3, stride, 1), width);
      add(convolution(width, out, 1, 1, 0), out);
    } else {
      add(convolution(in, width, 3, stride, 1), width);
      add(convolution(width, out, 3, 1, 1), out);
    }
    if (stride != 1 || in != out) {
      downsample_ = register_module("downsample", std::make_shared<Downsample>(in, out, stride));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      y = norms_[i]->forward(convs_[i]->forward(y));
      if (i + 1 < convs_.size()) {
        y = y.relu_();
      }
    }
    return (y + (downsample_ ? downsample_->forward(x) : x)).relu_();
  }

 private:
  void add(const torch::nn::Conv2d& conv, std::int64_t features) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, conv));
    norms_.push_back(register_module("bn" + number, std::make_shared<BatchNorm>(features)));
  }

  std::vector<torch::nn::Conv2d> convs_;
  std::vector<std::shared_ptr<BatchNorm>> norms_;
  std::shared_ptr<Downsample> downsample_;
};

class Stage : public torch::nn::Module {
 public:
  void add(const std::shared_ptr<Block>& block) {
    blocks_.push_back(register_module(std::to_string(blocks_.size()), block));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : blocks_) {
      x = block->forward(x);
    }
    return x;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

class ResNet final : public Classifier {
 public:
  ResNet(const ResNetShape& shape, const ArchitectureOptions& options)
      : Classifier(options.normalization),
        small_images_(options.small_images),
        conv1_(register_module("conv1", small_images_
                                            ? convolution(options.channels, 64, 3, 1, 1)
                                            : convolution(options.channels, 64, 7, 2, 3))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(64))) {
    std::int64_t in = 64;
    std::int64_t width = 64;
    for (std::size_t i = 0; i < shape.blocks.size(); ++i, width *= 2) {
      auto stage = register_module("layer" + std::to_string(i + 1), std::make_shared<Stage>());
      for (int block = 0; block < shape.blocks[i]; ++block) {
        stage->add(
            std::make_shared<Block>(in, width, i > 0 && block == 0 ? 2 : 1, shape.bottleneck));
        in = shape.bottleneck ? 4 * width : width;
      }
      stages_.push_back(std::move(stage));
    }
    fc_ = register_module("fc", torch::nn::Linear(in, options.classes));
  }

 private:
  at::Tensor logits(const at::Tensor& normalized) override {
    at::Tensor x = bn1_->forward(conv1_->forward(normalized)).relu_();
    if (!small_images_) {
      x = at::max_pool2d(x, 3, 2, 1);
    }
    for (const auto& stage : stages_) {
      x = stage->forward(x);
    }
    return fc_->forward(x.mean({2, 3}));
  }

  bool small_images_;
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<Stage>> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_resnet(const ResNetShape& shape,
                                        const ArchitectureOptions& options) {
  return std::make_shared<ResNet>(shape, options);
}

}  // namespace temper
