#include "temper/optim/weight_average.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/zeros.h>

#include "optim/copy_state.h"
#include "temper/core/error.h"

namespace temper {

WeightAverage::WeightAverage(const StateDict& source, StateDict average,
                             const WeightAverageOptions& options)
    : average_(std::move(average)), options_(options) {
  require(!source.empty() && source.size() == average_.size(), "an average of ", average_.size(),
          " tensors for ", source.size());
  copy_state(average_, source, "model");
  for (std::size_t i = 0; i < source.size(); ++i) {
    require(
        source[i].first == average_[i].first && !source[i].second.is_alias_of(average_[i].second),
        "the average of ", source[i].first, " must be a tensor of its own");
    const bool averaged = source[i].second.is_floating_point();
    (averaged ? source_floats_ : source_others_).push_back(source[i].second.detach());
    (averaged ? average_floats_ : average_others_).push_back(average_[i].second.detach());
  }
  updates_ =
      at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(source[0].second.device()));
}

void WeightAverage::update(const at::Tensor& skip) {
  const at::NoGradGuard no_grad;
  const at::Tensor applied = skip.eq(0).to(at::kDouble);
  at::Tensor moved = applied * (1 - options_.decay);
  if (options_.warmup) {
    // 1 - min(decay, (1 + t) / (10 + t))
    moved = applied * (9 / (10 + updates_)).clamp_min(1 - options_.decay);
  }
  updates_.add_(applied);
  std::vector<at::Tensor> differences = at::_foreach_sub(source_floats_, average_floats_);
  at::_foreach_mul_(differences, moved.to(average_floats_.front().scalar_type()));
  at::_foreach_add_(average_floats_, differences);
  if (!average_others_.empty()) {
    at::_foreach_copy_(average_others_, source_others_);
  }
}

double WeightAverage::updates() const { return updates_.item<double>(); }

void WeightAverage::load(const StateDict& average, double updates) {
  copy_state(average_, average, "weight average");
  updates_.fill_(updates);
}

}  // namespace temper
