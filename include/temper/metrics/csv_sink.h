#pragma once
// epochs.csv: one row per epoch. Training columns are means over the epoch's records, weighted by
// their samples; validation columns come from the epoch's last validation. A missing value is an
// empty field.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "temper/metrics/sink.h"

namespace temper {

class CsvSink final : public Sink {
 public:
  // After a resume, pass the kept part of metrics.jsonl through replay_metrics to this sink.
  explicit CsvSink(std::filesystem::path path);

  // The file is replaced in one step when an epoch ends, is validated, or the run ends.
  void write(const TrainRecord& record) override;
  void write(const ValidationRecord& record) override;
  void write(const Event& event) override;

 private:
  struct Mean {
    double sum = 0;
    double weight = 0;
    void add(double value, double weight_of_value);
    [[nodiscard]] std::string text() const;
  };
  struct Row {
    std::int64_t update = 0;
    std::int64_t samples = 0;
    Mean loss, clean_loss, robust_loss, clean_accuracy, adversarial_accuracy, images_per_second;
    double learning_rate = kNotANumber;  // of the last record
    ValidationRecord validation;
    bool validated = false;
  };

  void save() const;

  std::filesystem::path path_;
  std::map<int, Row> rows_;
  std::int64_t samples_ = 0;  // of the last train record
};

}  // namespace temper
