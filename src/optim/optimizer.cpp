#include "temper/optim/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "optim/copy_state.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// The parameters of one step that share a weight decay.
struct Group {
  std::vector<std::size_t> places;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;

  Group(const std::vector<NamedParameter>& all, bool decays) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].decays == decays && all[i].tensor.grad().defined()) {
        places.push_back(i);
        parameters.push_back(all[i].tensor);
        gradients.push_back(all[i].tensor.grad());
      }
    }
  }
  // Their entries of a list with one tensor a parameter; an empty list stays empty.
  [[nodiscard]] std::vector<at::Tensor> pick(const std::vector<at::Tensor>& from) const {
    std::vector<at::Tensor> out;
    for (const std::size_t place : places) {
      if (!from.empty()) {
        out.push_back(from[place]);
      }
    }
    return out;
  }
};

std::vector<at::Tensor> zeros_like_all(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> out;
  out.reserve(parameters.size());
  for (const NamedParameter& parameter : parameters) {
    out.push_back(
        at::zeros_like(parameter.tensor, at::TensorOptions(), at::MemoryFormat::Preserve).detach());
  }
  return out;
}

class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options)
      : parameters_(std::move(parameters)), options_(options) {
    if (options_.momentum != 0) {
      momentum_ = zeros_like_all(parameters_);
    }
  }

  void step(double learning_rate, const at::Tensor& skip) override {
    const at::NoGradGuard no_grad;
    for (const bool decays : {true, false}) {
      const Group group(parameters_, decays);
      if (!group.places.empty()) {
        // Buffers start at zero, so the first step needs no case of its own and a skipped one
        // leaves no trace.
        at::_fused_sgd_(group.parameters, group.gradients, group.pick(momentum_),
                        decays ? options_.weight_decay : 0, options_.momentum, learning_rate,
                        /*dampening=*/0, options_.nesterov, /*maximize=*/false,
                        /*is_first_step=*/false, /*grad_scale=*/{}, skip);
      }
    }
  }

  [[nodiscard]] StateDict state() const override {
    StateDict out;
    for (std::size_t i = 0; i < momentum_.size(); ++i) {
      out.emplace_back("momentum/" + parameters_[i].name, momentum_[i]);
    }
    return out;
  }

 private:
  std::vector<NamedParameter> parameters_;
  SgdOptions options_;
  std::vector<at::Tensor> momentum_;
};

class AdamW final : public Optimizer {
 public:
  AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options)
      : parameters_(std::move(parameters)),
        options_(options),
        first_(zeros_like_all(parameters_)),
        second_(zeros_like_all(parameters_)) {
    for (const NamedParameter& parameter : parameters_) {
      steps_.push_back(at::zeros({}, parameter.tensor.options().dtype(at::kFloat)));
    }
  }

  void step(double learning_rate, const at::Tensor& skip) override {
    const at::NoGradGuard no_grad;
    for (const bool decays : {true, false}) {
      const Group group(parameters_, decays);
      if (!group.places.empty()) {
        const std::vector<at::Tensor> steps = group.pick(steps_);
        at::_foreach_add_(steps, at::Tensor(1 - skip));
        at::_fused_adamw_(group.parameters, group.gradients, group.pick(first_),
                          group.pick(second_), {}, steps, learning_rate, options_.beta1,
                          options_.beta2, decays ? options_.weight_decay : 0, options_.eps,
                          /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, skip);
      }
    }
  }

  [[nodiscard]] StateDict state() const override {
    StateDict out;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      out.emplace_back("first_moment/" + parameters_[i].name, first_[i]);
      out.emplace_back("second_moment/" + parameters_[i].name, second_[i]);
      out.emplace_back("step/" + parameters_[i].name, steps_[i]);
    }
    return out;
  }

 private:
  std::vector<NamedParameter> parameters_;
  AdamWOptions options_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  std::vector<at::Tensor> steps_;
};

}  // namespace

void Optimizer::load_state(const StateDict& state) {
  copy_state(this->state(), state, "optimizer state");
}

std::unique_ptr<Optimizer> make_sgd(std::vector<NamedParameter> parameters,
                                    const SgdOptions& options) {
  return std::make_unique<Sgd>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> make_adamw(std::vector<NamedParameter> parameters,
                                      const AdamWOptions& options) {
  return std::make_unique<AdamW>(std::move(parameters), options);
}

}  // namespace temper
