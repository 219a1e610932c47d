#pragma once
// Batch norm with an explicit statistics mode (Ioffe and Szegedy, 2015), local or synchronised over
// ranks.
//
// Running statistics are written at one point only. A forward in mode kUpdate adds to pending
// statistics, and PendingStatistics::commit moves these to the buffers after the backward pass. So
// no forward can invalidate the graph of another: several forwards and one backward are safe. A
// layer is used by one thread at a time.

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "temper/models/statistics_mode.h"

namespace temper {

// How the synchronised form reaches the other ranks. `sum` adds a tensor over all ranks in place
// and is a collective.
struct RankReduction {
  int rank = 0;
  int world_size = 1;
  std::function<void(at::Tensor&)> sum{};
};

// Input [N, C] or [N, C, ...]; parameters and buffers have PyTorch's names. N may be 0: the layer
// then joins the collectives and leaves statistics alone.
class BatchNorm : public torch::nn::Module {
 public:
  explicit BatchNorm(std::int64_t features, double eps = 1e-5, double momentum = 0.1,
                     bool affine = true);

  // Throws ConfigError when batch statistics would be taken of a single value per channel. In the
  // synchronised form, modes kUpdate and kBatch are one collective forward and one backward,
  // kRunning none. Double backward through synchronised statistics is refused.
  at::Tensor forward(const at::Tensor& input);

  // As PyTorch's: the count of batches stays an integer.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  using torch::nn::Module::to;

  [[nodiscard]] StatisticsMode mode() const { return mode_; }
  void set_mode(StatisticsMode mode) { mode_ = mode; }

  // Null or a world size of 1: local statistics. The reduction must outlive the layer's last
  // backward.
  void synchronize(std::shared_ptr<const RankReduction> reduction);
  [[nodiscard]] bool is_synchronized() const { return reduction_ != nullptr; }

  at::Tensor weight;               // [C], undefined without affine
  at::Tensor bias;                 // [C], undefined without affine
  at::Tensor running_mean;         // [C]
  at::Tensor running_var;          // [C], unbiased
  at::Tensor num_batches_tracked;  // int64 scalar

 private:
  friend class PendingStatistics;
  struct Pending {
    at::Tensor mean;
    at::Tensor var;
    std::int64_t forwards = 0;
    std::int64_t samples = 0;
  };

  at::Tensor forward_local(const at::Tensor& input, Pending* pending);
  Pending& pending();

  double eps_;
  double momentum_;
  StatisticsMode mode_ = StatisticsMode::kUpdate;
  std::shared_ptr<const RankReduction> reduction_;
  std::optional<Pending> pending_;
};

// All batch-norm layers below a module, in the order of registration.
[[nodiscard]] std::vector<BatchNorm*> batch_norm_layers(torch::nn::Module& module);

// The pending statistics of all layers of a model, between the forwards of an update and their
// commit.
class PendingStatistics {
 public:
  explicit PendingStatistics(torch::nn::Module& model);

  // Values that the local layers bring into the sum over ranks of one update; 0 when all layers are
  // synchronised. The size is the same in every update.
  [[nodiscard]] std::int64_t flat_size() const { return flat_size_; }

  // Writes statistics weighted by this rank's sample count into `flat` (float64 [flat_size]).
  void pack(at::Tensor& flat) const;
  // Takes the sum over ranks: each layer's statistics become the average weighted by sample counts.
  void unpack(const at::Tensor& summed);

  // Bool scalar on the model's device, without a host-device synchronisation.
  [[nodiscard]] at::Tensor are_finite() const;

  // Moves pending statistics to the buffers where `applied` (bool scalar on the model's device) is
  // true, and forgets them. Without a host-device synchronisation.
  void commit(const at::Tensor& applied);
  // Forgets pending statistics; buffers stay.
  void drop();

 private:
  std::vector<BatchNorm*> layers_;
  std::int64_t flat_size_ = 0;
};

}  // namespace temper
