#include "sync_batch_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Per-channel statistics over all ranks. `count` is the number of values per channel, float64
// scalar.
struct GlobalStatistics {
  at::Tensor mean;
  at::Tensor invstd;
  at::Tensor count;
};

std::vector<std::int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    dims.push_back(d);
  }
  return dims;
}

// A per-channel vector in the shape that broadcasts over `input`.
at::Tensor as_channels(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

// One row a rank: [mean, variance or inverse deviation, count]. A sum over rows that are zero
// elsewhere is a gather.
at::Tensor gather_rows(const RankReduction& ranks, const at::Tensor& row) {
  at::Tensor rows = at::zeros({ranks.world_size, row.numel()}, row.options());
  rows[ranks.rank].copy_(row);
  ranks.sum(rows);
  return rows;
}

// Chan, Golub and LeVeque (1983): variances of parts combine exactly through their counts and
// means.
GlobalStatistics gather_statistics(const at::Tensor& input, const SyncBatchNormOptions& options) {
  const std::int64_t channels = input.size(1);
  const std::int64_t local_count = input.numel() / channels;
  const auto wide = input.options().dtype(at::kDouble);
  at::Tensor row = at::zeros({2 * channels + 1}, wide);
  if (local_count > 0) {
    const auto [var, mean] = at::var_mean(input, reduced_dims(input), at::Scalar(0), false);
    row.narrow(0, 0, channels).copy_(mean);
    row.narrow(0, channels, channels).copy_(var);
    row[2 * channels].fill_(local_count);
  }
  const at::Tensor rows = gather_rows(*options.reduction, row);
  const at::Tensor means = rows.narrow(1, 0, channels);
  const at::Tensor vars = rows.narrow(1, channels, channels);
  const at::Tensor counts = rows.narrow(1, 2 * channels, 1);
  const at::Tensor count = counts.sum();
  const double total = count.item<double>();
  if (total == 1) {
    throw ConfigError(
        "batch norm got a single value per channel over all ranks: enlarge the batch size, or drop "
        "the "
        "incomplete batch with data.last_batch=drop");
  }
  const at::Tensor divisor = count.clamp_min(1);
  const at::Tensor mean = (means * counts).sum(0) / divisor;
  const at::Tensor var = ((vars + (means - mean).square()) * counts).sum(0) / divisor;
  if (options.running_mean.defined() && total > 0) {
    options.running_mean.lerp_(mean.to(options.running_mean.scalar_type()), options.momentum);
    options.running_var.lerp_((var * (count / (count - 1))).to(options.running_var.scalar_type()),
                              options.momentum);
  }
  return {mean.to(input.scalar_type()), (var + options.eps).rsqrt().to(input.scalar_type()), count};
}

// The same on CUDA with ATen's fused kernels.
GlobalStatistics gather_statistics_cuda(const at::Tensor& input,
                                        const SyncBatchNormOptions& options) {
  const std::int64_t channels = input.size(1);
  const std::int64_t local_count = input.numel() / channels;
  const auto accumulate =
      input.options().dtype(input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  at::Tensor row = at::zeros({2 * channels + 1}, accumulate);
  if (local_count > 0) {
    const auto [mean, invstd] = at::batch_norm_stats(input, options.eps);
    row.narrow(0, 0, channels).copy_(mean);
    row.narrow(0, channels, channels).copy_(invstd);
    row[2 * channels].fill_(local_count);
  } else {
    // The kernel below weights 1 / invstd^2 by the count: infinity times zero is no number.
    row.narrow(0, channels, channels).fill_(1);
  }
  const at::Tensor rows = gather_rows(*options.reduction, row);
  const at::Tensor counts = rows.narrow(1, 2 * channels, 1).view({-1});
  const auto [mean, invstd] = at::batch_norm_gather_stats_with_counts(
      input, rows.narrow(1, 0, channels).contiguous(),
      rows.narrow(1, channels, channels).contiguous(),
      options.running_mean.defined() ? std::optional(options.running_mean) : std::nullopt,
      options.running_var.defined() ? std::optional(options.running_var) : std::nullopt,
      options.momentum, options.eps, counts);
  return {mean, invstd, counts};
}

at::Tensor normalize(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                     const GlobalStatistics& statistics, double eps) {
  if (input.is_cuda()) {
    if (input.numel() == 0) {
      return at::empty_like(input);  // nothing to launch a kernel for
    }
    return at::batch_norm_elemt(input, weight, bias, statistics.mean, statistics.invstd, eps);
  }
  const at::Tensor scale = weight.defined() ? statistics.invstd * weight : statistics.invstd;
  const at::Tensor normalized =
      (input - as_channels(statistics.mean, input)).mul_(as_channels(scale, input));
  return bias.defined() ? normalized.add(as_channels(bias, input)) : normalized;
}

struct InputGradients {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
};

InputGradients backward_cpu(const RankReduction& ranks, const at::Tensor& grad,
                            const at::Tensor& input, const at::Tensor& weight,
                            const GlobalStatistics& statistics) {
  const auto dims = reduced_dims(input);
  const at::Tensor normalized =
      (input - as_channels(statistics.mean, input)).mul_(as_channels(statistics.invstd, input));
  const at::Tensor sum_grad = grad.sum(dims);
  const at::Tensor sum_grad_normalized = (grad * normalized).sum(dims);
  at::Tensor sums = at::stack({sum_grad, sum_grad_normalized}).to(at::kDouble);
  ranks.sum(sums);
  const at::Tensor means = (sums / statistics.count.clamp_min(1)).to(input.scalar_type());
  const at::Tensor scale = weight.defined() ? statistics.invstd * weight : statistics.invstd;
  at::Tensor grad_input = grad - as_channels(means[0], input);
  grad_input.addcmul_(normalized, as_channels(means[1], input), -1);
  grad_input.mul_(as_channels(scale, input));
  return {grad_input, sum_grad_normalized, sum_grad};
}

InputGradients backward_cuda(const RankReduction& ranks, const at::Tensor& grad,
                             const at::Tensor& input, const at::Tensor& weight,
                             const GlobalStatistics& statistics) {
  const std::int64_t channels = input.size(1);
  at::Tensor sums = at::zeros({2, channels}, statistics.mean.options());
  InputGradients gradients{grad, at::zeros({channels}, sums.options()),
                           at::zeros({channels}, sums.options())};
  if (input.numel() > 0) {
    const auto [sum_dy, sum_dy_xmu, grad_weight, grad_bias] = at::batch_norm_backward_reduce(
        grad, input, statistics.mean, statistics.invstd, weight, true, true, true);
    sums[0].copy_(sum_dy);
    sums[1].copy_(sum_dy_xmu);
    gradients.weight = grad_weight;
    gradients.bias = grad_bias;
  }
  ranks.sum(sums);
  if (input.numel() > 0) {
    gradients.input =
        at::batch_norm_backward_elemt(grad, input, statistics.mean, statistics.invstd, weight,
                                      sums[0], sums[1], statistics.count.to(at::kInt));
  }
  return gradients;
}

class SyncBatchNormFunction : public torch::autograd::Function<SyncBatchNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias,
                            const SyncBatchNormOptions* options,
                            std::shared_ptr<const RankReduction>* reduction) {
    const at::Tensor dense =
        input.is_cuda() ? input.contiguous(input.suggest_memory_format()) : input;
    const GlobalStatistics statistics = input.is_cuda() ? gather_statistics_cuda(dense, *options)
                                                        : gather_statistics(dense, *options);
    context->saved_data["reduction"] =
        c10::IValue::make_capsule(c10::make_intrusive<ReductionHolder>(*reduction));
    context->save_for_backward({dense, weight.value_or(at::Tensor()), statistics.mean,
                                statistics.invstd, statistics.count});
    return normalize(dense, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()), statistics,
                     options->eps);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw std::runtime_error(
          "synchronised batch norm has no second derivative: use local statistics for losses that "
          "differentiate a gradient");
    }
    const variable_list saved = context->get_saved_variables();
    const auto& reduction =
        static_cast<ReductionHolder*>(context->saved_data["reduction"].toCapsule().get())
            ->reduction;
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const GlobalStatistics statistics{saved[2], saved[3], saved[4]};
    const at::Tensor grad = gradients[0].contiguous(input.suggest_memory_format());
    const InputGradients result = input.is_cuda()
                                      ? backward_cuda(*reduction, grad, input, weight, statistics)
                                      : backward_cpu(*reduction, grad, input, weight, statistics);
    const at::Tensor none;
    return {result.input, weight.defined() ? result.weight : none,
            weight.defined() ? result.bias : none, none, none};
  }

 private:
  // Keeps the reduction alive as long as the graph.
  struct ReductionHolder : torch::CustomClassHolder {
    explicit ReductionHolder(std::shared_ptr<const RankReduction> value)
        : reduction(std::move(value)) {}
    std::shared_ptr<const RankReduction> reduction;
  };
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias, const SyncBatchNormOptions& options) {
  // An undefined tensor argument makes Function::apply throw, an empty optional does not.
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  auto reduction = options.reduction;
  return SyncBatchNormFunction::apply(input, optional(weight), optional(bias), &options,
                                      &reduction);
}

}  // namespace temper
