#include "temper/eval/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "temper/core/log.h"
#include "temper/data/sampler.h"
#include "temper/dist/agree.h"
#include "temper/dist/rank_failure.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// This rank's batches; a part of the data set is spread evenly over it, since folders are sorted by
// class.
std::vector<std::vector<std::uint32_t>> plan_batches(const EvaluationOptions& options,
                                                     const Communicator& communicator) {
  const bool part = options.samples != 0 && options.samples < options.dataset_size;
  const std::uint64_t count = part ? options.samples : options.dataset_size;
  auto batches =
      evaluation_shard(count, communicator.rank(), communicator.world_size(), options.batch_size);
  if (part) {
    for (auto& batch : batches) {
      for (std::uint32_t& index : batch) {
        index = static_cast<std::uint32_t>(index * options.dataset_size / count);
      }
    }
  }
  return batches;
}

ImageBatch select(const ImageBatch& batch, const at::Tensor& keep) {
  const at::Tensor places = keep.nonzero().view(-1);
  return {batch.images.index_select(0, places), batch.labels.index_select(0, places),
          batch.samples.index_select(0, places.cpu())};
}

bool stops_attack(const EvaluationOptions& options) {
  if (options.on_batch) {
    options.on_batch();
  }
  return options.stop_requested && options.stop_requested();
}

// Adds one batch to the counts.
void count_batch(Classifier& model, const ImageBatch& batch,
                 const std::vector<NamedAttack>& attacks, const EvaluationOptions& options,
                 EvaluationResult& result) {
  const at::Tensor logits = model.forward(batch.images);
  const at::Tensor correct = logits.argmax(1).eq(batch.labels);
  result.samples += batch.labels.numel();
  result.clean_correct += correct.sum().item<std::int64_t>();
  result.classes = logits.size(1);
  if (result.classes >= 10) {
    const at::Tensor best = std::get<1>(logits.topk(5, 1));
    result.top5_correct += best.eq(batch.labels.unsqueeze(1)).sum().item<std::int64_t>();
  }
  if (attacks.empty()) {
    return;
  }
  const ImageBatch standing = select(batch, correct);
  for (std::size_t i = 0; i < attacks.size() && standing.labels.numel() > 0; ++i) {
    const auto start = Clock::now();
    GradientCounts gradients;
    const at::Tensor adversarial =
        attacks[i].attack->perturb(model, standing.images, standing.labels,
                                   {.statistics = StatisticsMode::kRunning,
                                    .samples = standing.samples,
                                    .seed = options.seed,
                                    .purpose = Purpose::kEvaluation,
                                    .stop_requested = [&] { return stops_attack(options); },
                                    .gradient_counts = &gradients});
    result.attacks[i].robust_correct +=
        model.forward(adversarial).argmax(1).eq(standing.labels).sum().item<std::int64_t>();
    if (gradients.zero.defined()) {  // not every attack uses gradients
      result.attacks[i].zero_gradients += gradients.zero.item<std::int64_t>();
      result.attacks[i].nonfinite_gradients += gradients.nonfinite.item<std::int64_t>();
    }
    result.attacks[i].seconds += seconds_since(start);
  }
}

// Sums the integer counts over ranks. A rank that was stopped makes the whole result incomplete,
// one that failed ends the evaluation on all.
void reduce(EvaluationResult& result, const RankFailure& failure, Communicator& communicator) {
  std::vector<std::int64_t> counts{result.samples,     result.clean_correct,    result.top5_correct,
                                   result.bad_samples, result.complete ? 0 : 1, failure ? 1 : 0};
  constexpr std::size_t kFixed = 6;
  constexpr std::size_t kPerAttack = 3;
  for (const AttackResult& attack : result.attacks) {
    counts.insert(counts.end(),
                  {attack.robust_correct, attack.zero_gradients, attack.nonfinite_gradients});
  }
  at::Tensor sums = at::tensor(counts, at::kLong);
  {
    const PurposeScope scope(communicator, "evaluation counts");
    communicator.all_reduce_sum(sums);
  }
  if (sums[kFixed - 1].item<std::int64_t>() > 0) {
    throw_rank_failure(communicator, failure, "evaluation");
  }
  std::vector<double> own_seconds;
  for (const AttackResult& attack : result.attacks) {
    own_seconds.push_back(attack.seconds);
  }
  at::Tensor seconds = at::tensor(own_seconds, at::kDouble);
  if (seconds.numel() > 0) {
    const PurposeScope scope(communicator, "evaluation times");
    communicator.all_reduce_max(seconds);
  }
  const std::int64_t* sum = sums.const_data_ptr<std::int64_t>();
  result.samples = sum[0];
  result.clean_correct = sum[1];
  result.top5_correct = sum[2];
  result.bad_samples = sum[3];
  result.complete = sum[4] == 0;
  for (std::size_t i = 0; i < result.attacks.size(); ++i) {
    const std::int64_t* own = sum + kFixed + kPerAttack * i;
    result.attacks[i].robust_correct = own[0];
    result.attacks[i].zero_gradients = own[1];
    result.attacks[i].nonfinite_gradients = own[2];
    result.attacks[i].seconds = seconds.const_data_ptr<double>()[i];
  }
}

// Names the samples that were left out, or ends the evaluation when there are too many.
void report_bad_samples(const EvaluationResult& result, const std::string& errors,
                        const EvaluationOptions& options, Communicator& communicator) {
  if (result.bad_samples == 0) {
    return;
  }
  const PurposeScope scope(communicator, "bad samples");
  std::string last;
  for (const std::string& text : gather_texts(communicator, errors)) {
    for (const std::string& line : split(text, '\n')) {
      if (!line.empty()) {
        last = line;
        if (communicator.is_main_rank()) {
          log_warning("a bad sample is left out: ", line);
        }
      }
    }
  }
  const auto all = static_cast<double>(result.samples + result.bad_samples);
  if (static_cast<double>(result.bad_samples) > options.max_bad_samples * all) {
    throw AgreedError(concat(
        result.bad_samples, result.bad_samples == 1 ? " bad sample among " : " bad samples among ",
        all, ", more than data.max_bad_samples allows, ", 100 * options.max_bad_samples,
        " %; the last one: ", last, "; `datatool verify` lists all of them"));
  }
}

}  // namespace

ShareInterval share_interval(std::int64_t correct, std::int64_t samples) {
  if (samples == 0) {
    return {};
  }
  constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the standard normal
  const double n = static_cast<double>(samples);
  const double share = static_cast<double>(correct) / n;
  const double center = (share + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half =
      kZ / (1 + kZ * kZ / n) * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return {.low = std::max(0.0, center - half), .high = std::min(1.0, center + half)};
}

ImageBatch to_device(const HostBatch& batch, const Placement& placement) {
  const bool bytes = batch.element_type == ElementType::kUInt8;
  const std::vector<std::int64_t> shape{batch.count, batch.height, batch.width, batch.channels};
  // The tensors below only read; from_blob takes no const pointer.
  auto* data = const_cast<std::byte*>(batch.pixels.data());  // NOLINT
  const at::Tensor host = at::from_blob(
      data, shape, [owner = batch.pixels.owner()](void*) {}, bytes ? at::kByte : at::kFloat);
  // From pinned memory the host does not wait for the device. The loader's batches lie in it, and
  // its allocator gives it to nobody before the copy is done.
  const bool cuda = placement.device.is_cuda();
  const auto move = [&](const at::Tensor& tensor) {
    return cuda ? tensor.pin_memory().to(placement.device, tensor.scalar_type(), true) : tensor;
  };
  const at::Tensor pixels = move(host).permute({0, 3, 1, 2});
  at::Tensor images =
      pixels.to(placement.dtype, /*non_blocking=*/false, /*copy=*/true,
                cuda ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  if (bytes) {
    images.div_(255);
  }
  return {images, move(at::tensor(batch.labels, at::kLong)), at::tensor(batch.samples, at::kLong)};
}

BatchAllocator batch_allocator(const Placement& placement) {
  if (!placement.device.is_cuda()) {
    return {};
  }
  return [](std::size_t size) {
    const auto tensor = std::make_shared<at::Tensor>(
        at::empty({static_cast<std::int64_t>(size)},
                  at::TensorOptions().dtype(at::kByte).pinned_memory(true)));
    return std::shared_ptr<std::byte>(tensor, static_cast<std::byte*>(tensor->mutable_data_ptr()));
  };
}

EvaluationResult evaluate(Classifier& model, Loader& loader,
                          const std::vector<NamedAttack>& attacks, Communicator& communicator,
                          const EvaluationOptions& options) {
  const at::NoGradGuard no_grad;
  const StatisticsModeGuard mode(model, StatisticsMode::kRunning);
  EvaluationResult result;
  for (const NamedAttack& attack : attacks) {
    result.attacks.push_back({.attack = attack});
  }
  loader.start(0, plan_batches(options, communicator));
  const auto stopped = [&] { return options.stop_requested && options.stop_requested(); };
  std::string bad_samples;
  // There is no collective in this loop: a rank that fails in it can still tell the others.
  RankFailure failure;
  try {
    while (loader.remaining() > 0 && !stopped()) {
      if (options.on_batch) {
        options.on_batch();
      }
      std::optional<HostBatch> batch = loader.next_unless(stopped);
      if (!batch) {
        break;
      }
      for (const BadSampleNote& bad : batch->bad) {
        ++result.bad_samples;
        bad_samples += concat(bad.error.substr(0, bad.error.find('\n')), "\n");
      }
      if (batch->count > 0) {
        count_batch(model, to_device(*batch, options.placement), attacks, options, result);
      }
      loader.recycle(std::move(*batch));
    }
  } catch (const std::exception&) {
    if (communicator.world_size() == 1) {
      throw;
    }
    failure = {.cause = std::current_exception(), .phase = "evaluation"};
  }
  // A request may have cut the attack on the last batch short: its counts mean nothing.
  result.complete = !stopped();
  reduce(result, failure, communicator);
  report_bad_samples(result, bad_samples, options, communicator);
  return result;
}

}  // namespace temper
