#include "pre_activation.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

using Convolution = std::shared_ptr<torch::nn::Conv2dImpl>;

// In what the forms differ.
struct Details {
  bool silu;
  bool same_padding;        // of a 3x3 convolution with stride 2
  double momentum;          // of batch norm
  std::string_view stage;   // a stage's name before its number, from 1
  std::string_view blocks;  // between that and a block's number, from 0
  std::string_view projection;
  std::string_view last_norm;
  std::string_view last_layer;
};

const Details& details_of(PreActivationForm form) {
  static constexpr Details kPreActResNet{false, false,        0.1,  "layer",
                                         ".",   "shortcut.0", "bn", "linear"};
  static constexpr Details kTrades{false,     false,          0.1,   "block",
                                   ".layer.", "convShortcut", "bn1", "fc"};
  static constexpr Details kDeepMind{true,      true,           0.01,  "block",
                                     ".layer.", "convShortcut", "bn1", "fc"};
  switch (form) {
    case PreActivationForm::kPreActResNet:
      return kPreActResNet;
    case PreActivationForm::kTradesWideResNet:
      return kTrades;
    case PreActivationForm::kDeepMindWideResNet:
      break;
  }
  return kDeepMind;
}

// Registers a module under a path of names; what lies on the way only holds others.
template <typename Module>
std::shared_ptr<Module> register_at(torch::nn::Module& root, std::string_view path,
                                    std::shared_ptr<Module> module) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) {
    return root.register_module(std::string(path), std::move(module));
  }
  const std::string name(path.substr(0, dot));
  const auto children = root.named_children();
  const auto* known = children.find(name);
  const auto holder =
      known != nullptr ? *known : root.register_module(name, std::make_shared<torch::nn::Module>());
  return register_at(*holder, path.substr(dot + 1), std::move(module));
}

Convolution convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                        std::int64_t padding) {
  return std::make_shared<torch::nn::Conv2dImpl>(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(false));
}

std::shared_ptr<BatchNorm> batch_norm(std::int64_t features, const Details& details) {
  return std::make_shared<BatchNorm>(features, 1e-5, details.momentum);
}

// `x` is the caller's to change. The backward of SiLU needs what went in, that of ReLU does not.
at::Tensor activate(at::Tensor x, const Details& details) {
  if (!details.silu) {
    return x.relu_();
  }
  return x.requires_grad() ? at::silu(x) : at::silu_(x);
}

// SAME for kernel 3 and stride 2: an even size gets its one place more at the end alone.
at::Tensor pad_same(const at::Tensor& x) {
  return at::constant_pad_nd(x, {x.size(3) % 2, 1, x.size(2) % 2, 1});
}

struct BlockShape {
  std::int64_t in;
  std::int64_t out;
  std::int64_t stride;
};

class Block final : public torch::nn::Module {
 public:
  Block(const BlockShape& shape, const Details& details)
      : details_(details),
        pads_itself_(details.same_padding && shape.stride == 2),
        bn1_(register_module("bn1", batch_norm(shape.in, details))),
        conv1_(register_module(
            "conv1", convolution(shape.in, shape.out, 3, shape.stride, pads_itself_ ? 0 : 1))),
        bn2_(register_module("bn2", batch_norm(shape.out, details))),
        conv2_(register_module("conv2", convolution(shape.out, shape.out, 3, 1, 1))) {
    if (shape.stride != 1 || shape.in != shape.out) {
      projection_ = register_at(*this, details.projection,
                                convolution(shape.in, shape.out, 1, shape.stride, 0));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor active = activate(bn1_->forward(x), details_);
    at::Tensor y = conv1_->forward(pads_itself_ ? pad_same(active) : active);
    y = conv2_->forward(activate(bn2_->forward(y), details_));
    return y.add_(projection_ ? projection_->forward(active) : x);
  }

 private:
  const Details& details_;
  bool pads_itself_;
  std::shared_ptr<BatchNorm> bn1_;
  Convolution conv1_;
  std::shared_ptr<BatchNorm> bn2_;
  Convolution conv2_;
  Convolution projection_;
};

struct Stage {
  std::int64_t channels;
  std::int64_t blocks;
};

class PreActivationNet final : public Classifier {
 public:
  PreActivationNet(PreActivationForm form, std::int64_t stem, const std::vector<Stage>& stages,
                   const ArchitectureOptions& options)
      : Classifier(options.normalization),
        form_(form),
        conv1_(register_module("conv1", convolution(options.channels, stem, 3, 1, 1))) {
    const Details& details = details_of(form);
    std::int64_t in = stem;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      for (std::int64_t j = 0; j < stages[i].blocks; ++j) {
        const BlockShape shape{in, stages[i].channels, i > 0 && j == 0 ? 2 : 1};
        blocks_.push_back(register_at(*this, concat(details.stage, i + 1, details.blocks, j),
                                      std::make_shared<Block>(shape, details)));
        in = stages[i].channels;
      }
    }
    norm_ = register_at(*this, details.last_norm, batch_norm(in, details));
    linear_ = register_at(*this, details.last_layer,
                          std::make_shared<torch::nn::LinearImpl>(in, options.classes));
  }

  [[nodiscard]] PreActivationForm form() const { return form_; }

 private:
  at::Tensor logits(const at::Tensor& normalized) override {
    at::Tensor x = conv1_->forward(normalized);
    for (const auto& block : blocks_) {
      x = block->forward(x);
    }
    x = activate(norm_->forward(x), details_of(form_));
    return linear_->forward(x.mean({2, 3}));
  }

  PreActivationForm form_;
  Convolution conv1_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<BatchNorm> norm_;
  std::shared_ptr<torch::nn::LinearImpl> linear_;
};

}  // namespace

std::shared_ptr<Classifier> make_wide_resnet(const WideResNetShape& shape,
                                             const ArchitectureOptions& options) {
  require(shape.depth >= 10 && shape.depth % 6 == 4, "a wide ResNet of depth ", shape.depth);
  require(shape.form != PreActivationForm::kPreActResNet, "not a form of wide ResNets");
  constexpr std::int64_t kStem = 16;
  const std::int64_t blocks = (shape.depth - 4) / 6;
  std::vector<Stage> stages;
  for (const std::int64_t factor : {1, 2, 4}) {
    stages.push_back({kStem * factor * shape.width, blocks});
  }
  return std::make_shared<PreActivationNet>(shape.form, kStem, stages, options);
}

std::shared_ptr<Classifier> make_preact_resnet18(const ArchitectureOptions& options) {
  const std::vector<Stage> stages{{64, 2}, {128, 2}, {256, 2}, {512, 2}};
  return std::make_shared<PreActivationNet>(PreActivationForm::kPreActResNet, 64, stages, options);
}

std::optional<PreActivationForm> pre_activation_form(const torch::nn::Module& model) {
  const auto* net = dynamic_cast<const PreActivationNet*>(&model);
  return net != nullptr ? std::optional(net->form()) : std::nullopt;
}

}  // namespace temper
