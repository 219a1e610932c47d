#include "train/loop.h"

#include <ATen/ATen.h>

#include <cmath>

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/optim/gradients.h"

namespace temper {
namespace {

std::int64_t peak_memory(const at::Device& device) {
  return device.is_cuda() ? peak_gpu_memory(device.index()) : peak_host_memory();
}

}  // namespace

Trainer::Loop::Loop(const TrainerParts& parts, const TrainerOptions& options)
    : parts_(parts),
      options_(options),
      parameters_(parts.model.parameters()),
      ranks_{.rank = parts.communicator.rank(),
             .world_size = parts.communicator.world_size(),
             .sum =
                 [&communicator = parts.communicator](at::Tensor& tensor) {
                   const PurposeScope scope(communicator, "training method");
                   communicator.all_reduce_sum(tensor);
                 }},
      statistics_(parts.model),
      summary_(parts.communicator, options.placement, statistics_.flat_size()),
      outcomes_(options.placement.device),
      watch_(options.classes),
      data_watch_(parts.communicator, options.max_bad_samples, options.shape.samples_per_epoch) {
  require(options.shape.updates_per_batch == parts.method.updates_per_batch(),
          "the method replays a batch ", parts.method.updates_per_batch(), " times, the run ",
          options.shape.updates_per_batch);
}

RunParts Trainer::Loop::run_parts() const {
  return {.model = parts_.model,
          .optimizer = parts_.optimizer,
          .method = parts_.method,
          .average = parts_.average};
}

void Trainer::Loop::restore(const Value& checkpoint) {
  RestoredRun restored = restore_run_state(checkpoint, run_parts(), options_.shape);
  progress = restored.progress;
  // Without the action the saved state would grow old.
  if (options_.overfitting_check && options_.overfitting_check->roll_back) {
    roll_back_to_ = std::move(restored.roll_back_to);
  }
  next_update_ = progress.update;
}

StopReason Trainer::Loop::run() {
  event(progress.update > 0 ? "resumed" : "started",
        {{"world_size", std::int64_t{parts_.communicator.world_size()}}});
  if (!options_.compare_replicas_every.is_zero()) {
    compare_replicas();
  }
  interval_.restart();
  while (!stopped_) {
    do_due_work();
    if (stopped_ || has_ended_early() || next_update_ >= options_.shape.last_update()) {
      break;
    }
    step();
    // The host must know where it stands before it validates, saves or ends.
    const bool last = next_update_ >= options_.shape.last_update();
    take_outcomes(last || is_due_now(options_.validate_every) ||
                  is_due_now(options_.checkpoint_every) ||
                  is_due_now(options_.compare_replicas_every) ||
                  (options_.overfitting_check && is_due_now(options_.overfitting_check->every)));
    if (save_requested_) {
      take_outcomes(/*flush=*/true);
    }
  }
  finish();
  return stop_;
}

// After the updates that were launched.
bool Trainer::Loop::is_due_now(const Period& period) const {
  return options_.shape.is_due(period, next_update_);
}

int Trainer::Loop::epoch_of(std::int64_t update) const {
  return static_cast<int>((std::max<std::int64_t>(update, 1) - 1) /
                          options_.shape.updates_per_epoch) +
         1;
}

StopReason Trainer::Loop::own_stop_request() const {
  const StopReason asked = parts_.stop_requested ? parts_.stop_requested() : StopReason::kFinished;
  if (asked == StopReason::kFinished && options_.max_time &&
      Clock::now() - started_ > *options_.max_time) {
    return StopReason::kTimeUp;
  }
  return asked;
}

// Asked between the steps of an attack.
bool Trainer::Loop::stops_early() const {
  if (parts_.alive) {
    parts_.alive();
  }
  return own_stop_request() != StopReason::kFinished;
}

void Trainer::Loop::note_save_requests() {
  const std::int64_t asked = parts_.saves_requested ? parts_.saves_requested() : 0;
  if (asked > saves_asked_) {
    saves_asked_ = asked;
    summary_.ask_to_save();
  }
}

// The peak never falls, so it is enough to read it when it is logged.
std::int64_t Trainer::Loop::peak_memory_to_log() const {
  return is_logged(next_update_ + 1) ? peak_memory(options_.placement.device) : 0;
}

// Also the end of an epoch, so that no record mixes two.
bool Trainer::Loop::is_logged(std::int64_t update) const {
  return update >= options_.shape.last_update() || update % options_.shape.updates_per_epoch == 0 ||
         options_.shape.is_due(options_.log_every, update);
}

void Trainer::Loop::enter(Phase phase, std::string_view name) {
  clock_.enter(phase);
  note_place(name, next_update_ + 1);
}

void Trainer::Loop::note_place(std::string_view phase, std::int64_t update) {
  phase_ = phase;
  parts_.communicator.set_place(phase, update);
  if (parts_.enter_phase) {
    parts_.enter_phase(phase, update);
  }
}

// Called in a catch clause. This rank then joins the collectives of the update without a sample, so
// that all learn of the failure in its summary; the update is discarded.
void Trainer::Loop::note_failure() {
  if (parts_.communicator.world_size() == 1) {
    throw;
  }
  failure_ = {.cause = std::current_exception(), .phase = std::string(phase_)};
}

void Trainer::Loop::event(const char* what,
                          std::vector<std::pair<std::string, EventDetail>> details) {
  parts_.sink.write(Event{.what = what,
                          .epoch = epoch_of(progress.update),
                          .update = progress.update,
                          .details = std::move(details)});
}

// One update: gradients of the mean loss over all ranks' samples, then the optimizer where all
// agree.
void Trainer::Loop::step() {
  const double learning_rate = scheduled_learning_rate(
      options_.schedule, options_.learning_rate, static_cast<double>(next_update_),
      static_cast<double>(options_.shape.total_updates()));
  enter(Phase::kData, "data");
  if (!batch_ || !is_replay(next_update_)) {
    batch_ = fetch();
  }
  zero_gradients(parameters_);
  summary_.begin();
  compute_gradients(*batch_);

  enter(Phase::kCommunication, "communication");
  note_save_requests();
  summary_.reduce(own_stop_request(), static_cast<bool>(failure_),
                  data_watch_.bad_samples(next_update_), clock_.take(), peak_memory_to_log(),
                  statistics_);

  enter(Phase::kOptimizer, "optimizer");
  const at::Tensor norm = clip_gradient_norm(parameters_, options_.gradient_clip);
  const at::Tensor skip = summary_.decide(norm, statistics_.are_finite());
  parts_.optimizer.step(learning_rate, skip);
  parts_.method.after_update(parts_.model, skip);
  statistics_.commit(skip.eq(0));
  if (parts_.average != nullptr) {
    parts_.average->update(skip);
  }
  outcomes_.push(summary_.values());
  launched_.push_back(
      {next_update_, is_replay(next_update_) ? 0 : batch_->global_size, learning_rate});
  ++next_update_;
  if (!is_replay(next_update_)) {
    batch_.reset();
  }
  clock_.stop();
}

Trainer::Loop::DeviceUpdate Trainer::Loop::fetch() {
  const std::int64_t per_epoch = options_.shape.updates_per_epoch;
  const auto epoch = static_cast<std::uint32_t>(next_update_ / per_epoch);
  const auto first = static_cast<std::uint64_t>(batch_of(next_update_ % per_epoch));
  if (loading_epoch_ != epoch && !failure_) {
    start_loading(epoch, first);
  }
  const GlobalBatch plan = parts_.sampler.global_batch(epoch, first);
  DeviceUpdate update{.micro_batches = {},
                      .global_size = static_cast<std::int64_t>(plan.global_size)};
  for (std::size_t i = 0; i < plan.micro_batches.size(); ++i) {
    update.micro_batches.push_back(fetch_batch());
    update.global_sizes.push_back(static_cast<std::int64_t>(plan.micro_batches[i].global_size));
  }
  return update;
}

// From a batch of an epoch to its end.
void Trainer::Loop::start_loading(std::uint32_t epoch, std::uint64_t first) {
  const std::int64_t per_epoch = options_.shape.updates_per_epoch;
  std::vector<std::vector<std::uint32_t>> batches;
  const std::int64_t last =
      std::min(per_epoch, options_.shape.last_update() - epoch * per_epoch) - 1;
  for (std::uint64_t b = first; b <= static_cast<std::uint64_t>(batch_of(last)); ++b) {
    for (MicroBatch& micro_batch : parts_.sampler.global_batch(epoch, b).micro_batches) {
      batches.push_back(std::move(micro_batch.samples));
    }
  }
  loaded_ = parts_.loader.statistics();
  parts_.loader.start(epoch, std::move(batches));
  loading_epoch_ = epoch;
}

ImageBatch Trainer::Loop::fetch_batch() {
  if (!failure_) {
    try {
      // A request to stop does not wait for a slow file.
      std::optional<HostBatch> batch =
          parts_.loader.next_unless([this] { return own_stop_request() != StopReason::kFinished; });
      if (batch) {
        ImageBatch images = to_device(*batch, options_.placement);
        data_watch_.note(next_update_, batch->bad);
        parts_.loader.recycle(std::move(*batch));
        return images;
      }
    } catch (const std::exception&) {
      note_failure();
    }
  }
  return empty_batch();
}

ImageBatch Trainer::Loop::empty_batch() {
  return to_device(parts_.loader.empty_batch(), options_.placement);
}

void Trainer::Loop::compute_gradients(const DeviceUpdate& update) {
  const double scale = 1 / static_cast<double>(update.global_size);
  for (std::size_t i = 0; i < update.micro_batches.size(); ++i) {
    const bool last = i + 1 == update.micro_batches.size();
    const std::int64_t begun = parts_.communicator.collectives_begun();
    try {
      ImageBatch batch = failure_ ? empty_batch() : update.micro_batches[i];
      mix_micro_batch(batch, i, update.global_sizes[i]);
      compute_micro_batch(batch, i, scale, last);
    } catch (const std::exception&) {
      // In the middle of the collectives of a micro-batch there is no way to go on with the others:
      // this rank ends, and its supervisor tells them.
      if (failure_ || parts_.communicator.collectives_begun() != begun) {
        throw;
      }
      note_failure();
      compute_micro_batch(empty_batch(), i, scale, last);
    }
  }
}

void Trainer::Loop::mix_micro_batch(ImageBatch& batch, std::size_t number,
                                    std::int64_t global_size) {
  if (options_.mixing.is_on() && global_size > 1) {
    const Mixing mixing = draw_mixing(
        options_.mixing, options_.seed, static_cast<std::uint32_t>(batch_of(next_update_)),
        static_cast<std::uint32_t>(number), batch.images.size(2), batch.images.size(3));
    mix(batch, mixing, options_.mixing.classes, global_size, parts_.communicator);
  }
}

void Trainer::Loop::compute_micro_batch(const ImageBatch& batch, std::size_t number, double scale,
                                        bool last) {
  StepContext context{
      .model = parts_.model,
      .seed = options_.seed,
      .epoch = static_cast<std::uint32_t>(next_update_ / options_.shape.updates_per_epoch),
      .update = static_cast<std::uint32_t>(next_update_),
      .updates_per_epoch = static_cast<double>(options_.shape.updates_per_epoch),
      .micro_batch = number,
      .ranks = ranks_,
      .backward =
          [&](const at::Tensor& loss_sum) {
            const at::Tensor loss = loss_sum * scale;
            last ? parts_.reducer.backward(loss) : loss.backward();
          },
      .enter_phase =
          [&](std::string_view name) {
            enter(name == "attack" ? Phase::kAttack : Phase::kForwardBackward, name);
          },
      .stop_requested = [&] { return stops_early(); }};
  const StepOutput output = parts_.method.compute_gradients(context, batch);
  summary_.add(output, batch.labels);
}

void Trainer::Loop::take_outcomes(bool flush) {
  while (const auto values = outcomes_.pop(flush)) {
    const Launched launched = launched_.front();
    launched_.erase(launched_.begin());
    if (!stopped_) {
      take_outcome(launched, values->const_data_ptr<double>());
    }
  }
}

void Trainer::Loop::take_outcome(const Launched& launched, const double* values) {
  stop_ = stop_reason_of(values);
  if (stop_ != StopReason::kFinished) {
    // This update was discarded everywhere, and so are those launched after it.
    stopped_ = true;
    next_update_ = progress.update;
    return;
  }
  if (values[kFailedRanks] > 0) {
    throw_rank_failure(parts_.communicator, failure_, concat("update ", launched.update + 1));
  }
  save_requested_ = save_requested_ || values[kSaveRanks] > 0;
  progress.update = launched.update + 1;
  report_bad_samples(static_cast<std::int64_t>(values[kBadSampleCount]));
  progress.samples += launched.samples;
  const bool skipped = values[kSkipped] != 0;
  progress.skipped_in_a_row = skipped ? progress.skipped_in_a_row + 1 : 0;
  if (skipped) {
    const std::string reason = values[kNonfiniteRanks] > 0 ? "the loss is not finite"
                               : std::isfinite(values[kGradientNorm])
                                   ? "the batch-norm statistics are not finite"
                                   : "the gradient is not finite";
    event("skipped_update", {{"reason", reason}, {"in_a_row", progress.skipped_in_a_row}});
    if (parts_.communicator.is_main_rank()) {
      log_warning("update ", progress.update, " is skipped: ", reason);
    }
    if (options_.abort_on_nonfinite || progress.skipped_in_a_row > options_.max_skipped) {
      throw AgreedError(concat(
          "update ", progress.update, ": ", reason,
          options_.abort_on_nonfinite
              ? ""
              : concat(", ", progress.skipped_in_a_row, " times in a row (training.max_skipped)"),
          "; try a smaller learning rate or training.gradient_clip"));
    }
  } else {
    interval_.add(values, parts_.communicator.world_size());
    watch(values);
  }
  if (is_logged(progress.update)) {
    parts_.sink.write(interval_.record(epoch_of(progress.update), progress, launched.learning_rate,
                                       parts_.communicator.world_size()));
    interval_.restart();
  }
  if (progress.update % options_.shape.updates_per_epoch == 0) {
    report_loading();
  }
}

void Trainer::Loop::report_bad_samples(std::int64_t count) {
  if (count > 0) {
    for (DataWatch::Details& details :
         data_watch_.take_bad_samples(progress.update - 1, epoch_of(progress.update), count)) {
      if (parts_.communicator.is_main_rank()) {
        log_warning("update ", progress.update,
                    ": a bad sample is replaced: ", std::get<std::string>(details.back().second));
      }
      event("bad_sample", std::move(details));
    }
  }
  data_watch_.forget_before(progress.update);
}

// At the end of an epoch; the next one may be loading already.
void Trainer::Loop::report_loading() {
  const bool next_is_loading = loading_epoch_ >= epoch_of(progress.update);
  LoaderStatistics statistics = next_is_loading ? loaded_ : parts_.loader.statistics();
  event("epoch_loaded", DataWatch::summarize(parts_.communicator, statistics));
  if (const std::string advice = loader_advice(statistics, options_.loader_cpus);
      options_.loader_cpus > 0 && !advice.empty()) {
    if (parts_.communicator.is_main_rank()) {
      log_warning("epoch ", epoch_of(progress.update), ": ", advice);
    }
    event("warning", {{"warning", std::string("slow_data")}, {"text", advice}});
  }
}

void Trainer::Loop::watch(const double* values) {
  for (const NumericsWarning& warning : watch_.add(values)) {
    if (parts_.communicator.is_main_rank()) {
      log_warning("update ", progress.update, ": ", warning.text);
    }
    event("warning", {{"warning", warning.kind}, {"text", warning.text}});
  }
}

}  // namespace temper
