#include "temper/models/foreign_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "pre_activation.h"
#include "temper/core/error.h"
#include "temper/models/model_state.h"

namespace temper {
namespace {

using Names = std::set<std::string, std::less<>>;

Names names_of(const StateDict& state) {
  Names names;
  for (const auto& [name, tensor] : state) {
    names.insert(name);
  }
  return names;
}

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).flatten().contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

const at::Tensor* find(const StateDict& state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &StateDict::value_type::first);
  return found != state.end() ? &found->second : nullptr;
}

// One number for each of one or three channels.
bool is_channel_list(const at::Tensor& tensor) {
  return tensor.is_floating_point() && (tensor.numel() == 1 || tensor.numel() == 3);
}

void take_normalization(AdoptedWeights& adopted, const Names& own) {
  constexpr std::array<std::array<std::string_view, 2>, 2> kPairs{
      {{"mean", "std"}, {"mu", "sigma"}}};
  for (const auto& [name, mean] : adopted.weights) {
    const std::size_t last = name.rfind('.') + 1;  // 0 without a dot
    for (const auto& [mean_name, std_name] : kPairs) {
      if (std::string_view(name).substr(last) != mean_name || own.contains(name)) {
        continue;
      }
      const std::string partner = concat(name.substr(0, last), std_name);
      const at::Tensor* deviation = find(adopted.weights, partner);
      if (deviation != nullptr && is_channel_list(mean) && is_channel_list(*deviation)) {
        adopted.normalization = Normalization{numbers(mean), numbers(*deviation)};
        const std::string taken = name;
        std::erase_if(adopted.weights,
                      [&](const auto& e) { return e.first == taken || e.first == partner; });
        return;
      }
    }
  }
}

bool all_begin_with(const StateDict& state, std::string_view prefix) {
  return !state.empty() && std::ranges::all_of(state, [&](const auto& entry) {
    return entry.first.starts_with(prefix);
  });
}

void strip_prefixes(AdoptedWeights& adopted, const Names& own) {
  constexpr std::string_view kPrefixes[] = {"module.", "_orig_mod.", "model.", "0.", "1."};
  const auto of_wrapper = [&](std::string_view prefix) {
    return all_begin_with(adopted.weights, prefix) &&
           std::ranges::none_of(own, [&](const auto& name) { return name.starts_with(prefix); });
  };
  for (const auto* found = std::ranges::find_if(kPrefixes, of_wrapper);
       found != std::end(kPrefixes); found = std::ranges::find_if(kPrefixes, of_wrapper)) {
    for (auto& [name, tensor] : adopted.weights) {
      name.erase(0, found->size());
    }
    adopted.prefix += *found;
  }
}

bool is_deepmind_wide_resnet(const Names& file) {
  return file.contains("init_conv.weight") && file.contains("logits.weight") &&
         file.contains("layer.0.block.0.conv_0.weight");
}

// Its projections are 3x3 convolutions.
bool is_deepmind_preact_resnet(const Names& file) {
  return file.contains("conv_2d.weight") && file.contains("layer_0.0.conv_2d_1.weight");
}

// As fast_adversarial and understanding-fast-adv-training first had it, and RobustBench's
// PreActResNet with PreActBlock.
bool is_preact_resnet_without_last_norm(const Names& file) {
  return file.contains("layer1.0.bn1.weight") && file.contains("layer2.0.shortcut.0.weight") &&
         file.contains("linear.weight") && !file.contains("layer2.0.shortcut.1.weight") &&
         !file.contains("bn.weight") && !file.contains("bn1.weight");
}

void refuse_other_nets(const Names& file, std::optional<PreActivationForm> form,
                       const std::string& source) {
  if (is_deepmind_wide_resnet(file) && form != PreActivationForm::kDeepMindWideResNet) {
    throw ConfigError(
        concat(source,
               ": these are weights of DeepMind's wide ResNet, whose activation and "
               "padding are others than this architecture's; set model.architecture to "
               "wideresnet28_10_silu, wideresnet34_10_silu or wideresnet70_16_silu"));
  }
  if (is_deepmind_preact_resnet(file)) {
    throw ConfigError(
        concat(source,
               ": these are weights of DeepMind's pre-activation ResNet, whose shortcuts "
               "are 3x3 convolutions; no architecture here has them"));
  }
  if (form == PreActivationForm::kPreActResNet && is_preact_resnet_without_last_norm(file)) {
    throw ConfigError(
        concat(source,
               ": these are weights of a pre-activation ResNet without batch norm before "
               "the last layer, whose shortcuts take the block's input as it is; "
               "preactresnet18 is the form of robust_overfitting and AWP, which has both "
               "otherwise"));
  }
}

// layer.I.block.J.batchnorm_0.weight is block<I+1>.layer.J.bn1.weight, init_conv.weight is
// conv1.weight.
std::string from_deepmind(const std::string& name) {
  static const std::map<std::string_view, std::string_view> in_block{{"batchnorm_0", "bn1"},
                                                                     {"conv_0", "conv1"},
                                                                     {"batchnorm_1", "bn2"},
                                                                     {"conv_1", "conv2"},
                                                                     {"shortcut", "convShortcut"}};
  static const std::map<std::string_view, std::string_view> outside{
      {"init_conv", "conv1"}, {"batchnorm", "bn1"}, {"logits", "fc"}};
  static const std::map<std::string_view, std::string_view> stages{
      {"0", "block1"}, {"1", "block2"}, {"2", "block3"}};
  const std::vector<std::string> parts = split(name, '.');
  if (parts.size() == 2 && outside.contains(parts[0])) {
    return concat(outside.at(parts[0]), ".", parts[1]);
  }
  if (parts.size() == 6 && parts[0] == "layer" && parts[2] == "block" &&
      stages.contains(parts[1]) && in_block.contains(parts[4])) {
    return concat(stages.at(parts[1]), ".layer.", parts[3], ".", in_block.at(parts[4]), ".",
                  parts[5]);
  }
  return name;
}

}  // namespace

AdoptedWeights adopt_weights(const StateDict& file, const Classifier& model,
                             const std::string& source) {
  AdoptedWeights adopted{.weights = file};
  const Names own = names_of(state_dict(model));
  take_normalization(adopted, own);
  strip_prefixes(adopted, own);
  const Names names = names_of(adopted.weights);
  const auto form = pre_activation_form(model);
  refuse_other_nets(names, form, source);
  if (!form || form == PreActivationForm::kPreActResNet) {
    return adopted;
  }
  if (is_deepmind_wide_resnet(names)) {
    adopted.names = "DeepMind's wide ResNet, as in RobustBench";
    for (auto& [name, tensor] : adopted.weights) {
      name = from_deepmind(name);
    }
  }
  adopted.unused = std::erase_if(
      adopted.weights, [](const auto& entry) { return is_within(entry.first, "sub_block1"); });
  return adopted;
}

}  // namespace temper
