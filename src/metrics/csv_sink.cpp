#include "temper/metrics/csv_sink.h"

#include <cmath>

#include "temper/core/file.h"
#include "temper/core/text.h"

namespace temper {
namespace {

constexpr const char* kHeader =
    "epoch,update,samples,loss,clean_loss,robust_loss,train_clean_accuracy,"
    "train_adversarial_accuracy,learning_rate,images_per_second,clean_accuracy,robust_accuracy,"
    "validation_samples,average\n";

std::string cell(double value) { return std::isfinite(value) ? to_text(value) : std::string(); }

}  // namespace

void CsvSink::Mean::add(double value, double weight_of_value) {
  if (std::isfinite(value)) {
    sum += value * weight_of_value;
    weight += weight_of_value;
  }
}

std::string CsvSink::Mean::text() const { return weight > 0 ? cell(sum / weight) : std::string(); }

CsvSink::CsvSink(std::filesystem::path path) : path_(std::move(path)) {}

void CsvSink::write(const TrainRecord& record) {
  const bool is_new_epoch = !rows_.empty() && !rows_.contains(record.epoch);
  Row& row = rows_[record.epoch];
  const double weight =
      record.samples > samples_ ? static_cast<double>(record.samples - samples_) : 1.0;
  samples_ = record.samples;
  row.update = record.update;
  row.samples = record.samples;
  row.loss.add(record.loss, weight);
  row.clean_loss.add(record.clean_loss, weight);
  row.robust_loss.add(record.robust_loss, weight);
  row.clean_accuracy.add(record.clean_accuracy, weight);
  row.adversarial_accuracy.add(record.adversarial_accuracy, weight);
  row.images_per_second.add(record.images_per_second, weight);
  row.learning_rate = record.learning_rate;
  if (is_new_epoch) {
    save();
  }
}

void CsvSink::write(const ValidationRecord& record) {
  Row& row = rows_[record.epoch];
  row.update = record.update;
  row.validation = record;
  row.validated = true;
  save();
}

void CsvSink::write(const Event& event) {
  if (event.what == "finished" || event.what == "preempted") {
    save();
  }
}

void CsvSink::save() const {
  std::string text = kHeader;
  for (const auto& [epoch, row] : rows_) {
    const ValidationRecord& validation = row.validation;
    text += concat(epoch, ",", row.update, ",", row.samples, ",", row.loss.text(), ",",
                   row.clean_loss.text(), ",", row.robust_loss.text(), ",",
                   row.clean_accuracy.text(), ",", row.adversarial_accuracy.text(), ",",
                   cell(row.learning_rate), ",", row.images_per_second.text(), ",");
    if (row.validated) {
      text += concat(cell(validation.clean_accuracy), ",",
                     cell(validation.robust_accuracy.value_or(kNotANumber)), ",",
                     validation.samples, ",", validation.average ? 1 : 0, "\n");
    } else {
      text += ",,,\n";
    }
  }
  write_file_atomically(path_, text);
}

}  // namespace temper
