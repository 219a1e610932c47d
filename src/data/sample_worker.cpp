#include "data/sample_worker.h"

#include "temper/core/error.h"

namespace temper {
namespace {

bool is_bad_sample(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DataError&) {
    return true;
  } catch (const SystemError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

SampleOutcome SampleWorker::run(SampleTask& task, std::byte* out) {
  const SampleWork& work = task.work;
  SampleOutcome outcome{.error = task.error, .note = {}, .label = dataset_.labels()[work.sample]};
  if (outcome.error == nullptr) {
    try {
      const SampleCost cost =
          loader_.load(work.sample, random_of(work, options_.purpose), task.sample.get(), out);
      task.cost.bytes_read += cost.bytes_read;
      task.cost.read_seconds += cost.read_seconds;
      return outcome;
    } catch (...) {
      outcome.error = std::current_exception();
    }
  }
  if (options_.on_bad_sample == BadSamplePolicy::kError || !is_bad_sample(outcome.error)) {
    return outcome;
  }
  outcome.note = {.sample = work.sample, .error = text_of(outcome.error), .replaced_by = {}};
  if (options_.on_bad_sample == BadSamplePolicy::kReplace) {
    replace(work, out, outcome);
  }
  return outcome;
}

void SampleWorker::replace(const SampleWork& work, std::byte* out, SampleOutcome& outcome) {
  constexpr int kTries = 20;
  SampleRandom choice = random_of(work, Purpose::kReplacement);
  for (int i = 0; i < kTries; ++i) {
    const auto other = static_cast<std::uint32_t>(choice.below(dataset_.size()));
    try {
      loader_.load(other, random_of(work, options_.purpose), nullptr, out);
    } catch (...) {
      if (!is_bad_sample(std::current_exception())) {
        outcome = {.error = std::current_exception(), .note = {}, .label = outcome.label};
        return;
      }
      continue;
    }
    outcome.note->replaced_by = other;
    outcome.label = dataset_.labels()[other];
    outcome.error = nullptr;
    return;
  }
  outcome.note.reset();
  outcome.error =
      std::make_exception_ptr(DataError(concat(text_of(outcome.error), "; none of ", kTries,
                                               " samples that might replace it is any better")));
}

}  // namespace temper
