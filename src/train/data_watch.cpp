#include "train/data_watch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "temper/core/error.h"
#include "temper/dist/agree.h"

namespace temper {

DataWatch::DataWatch(Communicator& communicator, double largest_share, std::int64_t samples)
    : communicator_(communicator), largest_share_(largest_share), samples_(samples) {}

void DataWatch::note(std::int64_t update, const std::vector<BadSampleNote>& bad) {
  for (const BadSampleNote& sample : bad) {
    notes_.push_back({update, sample});
  }
}

std::int64_t DataWatch::bad_samples(std::int64_t update) const {
  return std::ranges::count(notes_, update, &Note::update);
}

void DataWatch::forget_before(std::int64_t update) {
  std::erase_if(notes_, [&](const Note& note) { return note.update < update; });
}

std::vector<DataWatch::Details> DataWatch::take_bad_samples(std::int64_t update, int epoch,
                                                            std::int64_t count) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    bad_in_epoch_ = 0;
  }
  bad_in_epoch_ += count;
  std::string own;
  for (const Note& note : notes_) {
    if (note.update == update) {
      std::string error = note.bad.error;
      std::ranges::replace(error, '\n', ' ');
      own += concat(note.bad.sample, "\t", note.bad.replaced_by.value_or(-1), "\t", error, "\n");
    }
  }
  std::vector<Details> events;
  {
    const PurposeScope scope(communicator_, "bad samples");
    for (const std::string& text : gather_texts(communicator_, own)) {
      for (const std::string& line : split(text, '\n')) {
        if (const std::vector<std::string> fields = split(line, '\t'); fields.size() >= 3) {
          events.push_back({{"sample", std::int64_t{std::stoll(fields[0])}},
                            {"replaced_by", std::int64_t{std::stoll(fields[1])}},
                            {"error", line.substr(fields[0].size() + fields[1].size() + 2)}});
        }
      }
    }
  }
  if (static_cast<double>(bad_in_epoch_) > largest_share_ * static_cast<double>(samples_)) {
    const std::string last =
        events.empty() ? std::string() : std::get<std::string>(events.back().back().second);
    throw AgreedError(
        concat("update ", update, ": ", bad_in_epoch_,
               bad_in_epoch_ == 1 ? " bad sample in epoch " : " bad samples in epoch ", epoch,
               ", more than data.max_bad_samples allows, ", 100 * largest_share_, " % of ",
               samples_, "; the last one: ", last, "; `datatool verify` lists all of them"));
  }
  return events;
}

DataWatch::Details DataWatch::summarize(Communicator& communicator, LoaderStatistics& statistics) {
  at::Tensor sums = at::tensor(
      {static_cast<double>(statistics.samples), static_cast<double>(statistics.bad_samples),
       static_cast<double>(statistics.bytes_read), statistics.seconds, statistics.wait_seconds,
       statistics.load_seconds, statistics.read_seconds, statistics.queued_batches},
      at::kDouble);
  {
    const PurposeScope scope(communicator, "loader statistics");
    communicator.all_reduce_sum(sums);
  }
  const double* sum = sums.const_data_ptr<double>();
  const double ranks = communicator.world_size();
  statistics.samples = static_cast<std::uint64_t>(sum[0]);
  statistics.bad_samples = static_cast<std::uint64_t>(sum[1]);
  statistics.bytes_read = static_cast<std::uint64_t>(sum[2]);
  statistics.seconds = sum[3] / ranks;
  statistics.wait_seconds = sum[4] / ranks;
  statistics.load_seconds = sum[5] / ranks;
  statistics.read_seconds = sum[6] / ranks;
  statistics.queued_batches = sum[7] / ranks;
  return {{"images_per_second", statistics.images_per_second()},
          {"wait_share", statistics.wait_share()},
          {"queued_batches", statistics.queued_batches},
          {"bytes_read", static_cast<std::int64_t>(statistics.bytes_read)},
          {"bad_samples", static_cast<std::int64_t>(statistics.bad_samples)}};
}

}  // namespace temper
