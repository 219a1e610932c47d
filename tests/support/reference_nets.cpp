#include "support/reference_nets.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "temper/core/error.h"

namespace temper::testing_support {
namespace {

class Cnn final : public Classifier {
 public:
  Cnn()
      : Classifier({}),
        conv1_(register_module(
            "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(8))),
        conv2_(register_module(
            "conv2", torch::nn::Conv2d(
                         torch::nn::Conv2dOptions(8, 16, 3).stride(2).padding(1).bias(false)))),
        bn2_(register_module("bn2", std::make_shared<BatchNorm>(16))),
        fc_(register_module("fc", torch::nn::Linear(16, 10))) {}

 private:
  at::Tensor logits(const at::Tensor& x) override {
    const at::Tensor hidden = bn1_->forward(conv1_->forward(x)).relu();
    return fc_->forward(bn2_->forward(conv2_->forward(hidden)).relu().mean({2, 3}));
  }
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  torch::nn::Linear fc_;
};

class MlpBn final : public Classifier {
 public:
  MlpBn()
      : Classifier({}),
        fc1_(register_module("fc1", torch::nn::Linear(192, 32))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm>(32))),
        fc2_(register_module("fc2", torch::nn::Linear(32, 10))) {}

 private:
  at::Tensor logits(const at::Tensor& x) override {
    return fc2_->forward(bn1_->forward(fc1_->forward(x.flatten(1))).relu());
  }
  torch::nn::Linear fc1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Linear fc2_;
};

// With dropout between its layers; not a net of the reference numbers.
class DropoutNet final : public Classifier {
 public:
  DropoutNet()
      : Classifier({}),
        conv_(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)))),
        bn_(register_module("bn", std::make_shared<BatchNorm>(8))),
        dropout1_(register_module("dropout1", std::make_shared<Dropout>(0.2))),
        fc1_(register_module("fc1", torch::nn::Linear(288, 16))),
        dropout2_(register_module("dropout2", std::make_shared<Dropout>(0.5))),
        fc2_(register_module("fc2", torch::nn::Linear(16, 10))) {}

 private:
  at::Tensor logits(const at::Tensor& x) override {
    const at::Tensor hidden = dropout1_->forward(bn_->forward(conv_->forward(x)).relu());
    return fc2_->forward(dropout2_->forward(fc1_->forward(hidden.flatten(1)).relu()));
  }
  torch::nn::Conv2d conv_;
  std::shared_ptr<BatchNorm> bn_;
  std::shared_ptr<Dropout> dropout1_;
  torch::nn::Linear fc1_;
  std::shared_ptr<Dropout> dropout2_;
  torch::nn::Linear fc2_;
};

// Says the same for every image and gets no gradient.
class DeadNet final : public Classifier {
 public:
  DeadNet() : Classifier({}), fc_(register_module("fc", torch::nn::Linear(192, 10))) {}

 private:
  at::Tensor logits(const at::Tensor& x) override { return fc_->forward(x.flatten(1)) * 0; }
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<Classifier> make_reference_net(const std::string& name) {
  if (name == "dead") {
    return std::make_shared<DeadNet>();
  }
  if (name == "dropout") {
    return std::make_shared<DropoutNet>();
  }
  if (name == "cnn") {
    return std::make_shared<Cnn>();
  }
  require(name == "mlpbn", "no reference net ", name);
  return std::make_shared<MlpBn>();
}

}  // namespace temper::testing_support
